#!/usr/bin/env python3
"""Definitions of workflows, and what a schema says of them.

    workflow_definitions.py generate SEED COUNT           a JSON object per line
    workflow_definitions.py hostile SEED COUNT            the same
    workflow_definitions.py compare SCHEMA MEMBER... <PROBLEMS
    workflow_definitions.py check SCHEMA FILE...          prints what is wrong

generate: {"definition", "input"}: valid definitions, and such with mutations.
Each kind of member has its turn to be mutated.

hostile: the same, with mutations anywhere, several at once, and with what is not
built yet.

compare: reads {"definition", "problems": [{"path", "problem"}]}, what the
engine says, and prints where the schema says something else.  MEMBERs are those
that the engine knows, as template.name or step.name.

What a schema cannot say is in NOT_OF_A_SCHEMA and expressible(): such problems
do not have to be found by the schema.  Whatever it finds the engine must find,
at the same member."""
import copy, json, random, re, sys
from collections import Counter

# Not built yet, and left out here until it is: remove what the engine knows.
UNBUILT_MEMBERS = {"template.max_duration", "template.stale_after",
                   "step.publishes", "step.stale_after"}
# end of what is left out

# What is nested deeply can come to stand in something else that is.
sys.setrecursionlimit(20_000)

NEEDED = 20     # times that each kind of member is valid, and invalid

NOT_OF_A_SCHEMA = [re.compile(words) for words in (
    r"^is also the name of steps\[\d+\]$",            # unique names
    r"^is not a step of this workflow$",             # known dependencies
    r"^does not depend on the decision$",
    r"^is part of a cycle: ",
    r"^must be deferred, since ",                   # the graph's types
    r"^must be batch_worker or deferred, since ",
    r"^must name exactly one step, of type batch$",
    r"^is a decision, but no step depends on it$",
    r"^is a batch and requires one step of type batch_worker ",
    r"^is also the name of a member of steps\[\d+\]$",
    r"^is below more than \d+ decisions and batches in a row$",
    r"^is not a valid jsonpath: ",
    r"^invalid regular expression: ",
    r"^has more than 16 tags$",                     # repeated ones count once
    r"^has more than \d+ bytes of options$",
    r"^must be a point in time, ",                  # any string may be one
)]
BYTES = re.compile(r"(?:must have 1 to|is longer than) (\d+) bytes")
OPTION = re.compile(r"^(?:has a value that is not allowed; allowed: .|is list, but retry_list is missing$)")
OPTIONS_TOGETHER = re.compile(r"^has more than \d+ bytes of options$")
UNIT = re.compile(r"[^-+.0-9 ]")

OPTIONS = {"retry", "retry_base", "retry_cap", "retry_list", "retry_jitter", "lease",
           "time_limit", "on_worker_death", "deadline_in"}
TEMPLATE = ["namespace", "name", "version", "description", "identity", "input_schema",
            "queue", "on_failure", "identity_window", "retention", "steps"]
STEP = ["name", "type", "queue", "handler", "config", "depends_on", "when", "payload",
        "retryable", "priority", "tags", "key", "compensate", "branches", "failure_strategy", "continue_on_failure",
        "workflow", "signal", "timer", "max_attempts"] + sorted(OPTIONS)
BRANCH = ["when", "steps"]
COMPENSATE = ["handler", "queue", "config"]
# Steps that no worker does, by the member that says what they wait for
WAITING = {"workflow": "workflow", "signal": "signal", "approval": "signal", "timer": "timer"}
FOR_WORKERS = {"handler", "config", "payload", "retryable", "priority", "tags", "key", "max_attempts"} | OPTIONS
WORKFLOW = ["name", "namespace", "version", "input", "key"]
SIGNAL = ["name", "timeout", "on_timeout", "role", "escalate_after", "escalate_to"]
TIMER = ["after", "at"]
SCHEMA = ["type", "required", "properties", "items", "enum", "minimum", "maximum",
          "pattern", "title", "description"]
KINDS = ([f"template.{m}" for m in TEMPLATE] + [f"step.{m}" for m in STEP]
         + [f"branch.{m}" for m in BRANCH] + [f"compensate.{m}" for m in COMPENSATE] + [f"schema.{m}" for m in SCHEMA]
         + [f"workflow.{m}" for m in WORKFLOW] + [f"signal.{m}" for m in SIGNAL] + [f"timer.{m}" for m in TIMER])
TYPES = ["standard", "decision", "deferred", "batch", "batch_worker"] + list(WAITING)
# Those of which many mutations are no fault have more turns.
TURNS = KINDS + ["template.retention", "template.identity_window", "step.when", "branch.when", "schema.enum",
                 "schema.pattern", "schema.title", "schema.description", "schema.minimum", "template.namespace",
                 "template.description", "timer.after", "timer.after", "signal.timeout", "signal.escalate_after",
                 "signal.escalate_to"]
ANY_VALUE = {"step.config", "step.payload", "workflow.input", "compensate.config"}   # which cannot be wrong by themselves

PATHS = ["$.input.n > 3", "$.input.n <= 3", "exists($.results)", "$.results.s1.ok == true",
         "true", '$.results."s 2" == null', "$.input.list[*] > 1", "strict $.input.none",
         '$.input.word like_regex "^a"', "$.input.n / 0 > 1", "$", "$.input.keyvalue().key == \"n\"",
         "$unknown > 1", "$.input.word.datetime() < \"2026-01-01\".datetime()", "$.**{2 to last}.n == 1"]
TIMES = ["2026-01-01 00:00 UTC", "2001-01-01", "tomorrow", "now", "epoch"]
NO_TIMES = ["", "soon", "2026-13-01", "infinity", "1 h", "300000-01-01"]
NO_PATHS = ["", "$.", "$.input[", "n > ", "$ ? (@.a ==)", "$.a like_regex \"(\"", "\"\\u0000\""]
CALLED = ["called", "failing", "missing"]        # workflows that the hostile test defines, and one that it does not
INTERVALS = ["1 s", "5 min", "1:30", "1 day 2 hours", "PT5M", "3 weeks", "500 ms", "9 years"]
NO_INTERVALS = ["", " ", "5", "1.5", "+5", "soon", "-1 s", "11 years", "5 parsecs", "1 s 1 s 1 s",
                "999999999999 years", "s", "0 s"]
STRANGE = [None, True, False, 0, -1, 1.5, 1e300, [], {}, "", "x", [1], [[]], {"a": 1}, [None], 10 ** 30,
           "x" * 201, "x" * 501, "x" * 8193, "é" * 150, "€" * 400, "é" * 5000, "a\nb", "a\n", "\u007f", "\u0085", "'\"\\", "😀"]


def strange(rng):
    """A copy, since its members are mutated, too."""
    return copy.deepcopy(rng.choice(STRANGE))


class Generator:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.number = 0
        self.compensates = False

    def some(self, likely, kind):
        return kind == self.want or self.rng.random() < likely

    def word(self, most):
        word = self.rng.choice(["a", "shop", "two words", "é€😀", "it's", 'a"b\\c', "x.y[0]", "*a"])
        return "x" * most if self.rng.random() < 0.05 else word

    def queue(self):
        return self.rng.choice(["q", "q2", "two words", "é", "q'\"", "q" * 200])

    def value(self, depth=0):
        rng = self.rng
        if depth > 3 or rng.random() < 0.4:
            return rng.choice([None, True, 1, -2.5, "x", "", 1e20, {"$": "$.input.n"}, {"$": 1}])
        if rng.random() < 0.5:
            return [self.value(depth + 1) for _ in range(rng.randrange(4))]
        return {rng.choice(["a", "b", "", "$", "é"]) + str(i): self.value(depth + 1)
                for i in range(rng.randrange(4))}

    def schema(self, depth=0):
        """One that allows any input that is an object."""
        rng, schema = self.rng, {}
        for keyword in SCHEMA:
            if not (self.some(0.15, f"schema.{keyword}")):
                continue
            if keyword == "type":
                types = ["object", "array", "string", "number", "integer", "boolean", "null"]
                schema["type"] = "object" if depth == 0 else rng.choice([types, "string", ["null", "integer"]])
            elif keyword == "required":
                schema["required"] = ["n"] if depth == 0 else ["a", "é"]
            elif keyword == "properties":
                schema["properties"] = {f"p{i}": self.schema(depth + 1) for i in range(rng.randrange(3))} if depth < 3 else {}
            elif keyword == "items":
                schema["items"] = self.schema(depth + 1) if depth < 3 else {}
            elif keyword == "enum" and depth > 0:
                schema["enum"] = [self.value() for _ in range(rng.randrange(3))]
            elif keyword in ("minimum", "maximum"):
                schema[keyword] = rng.choice([0, -1.5, 1e20, 7])
            elif keyword == "pattern":
                schema["pattern"] = rng.choice(["^a", "", "[[:alpha:]]+", "(a*)*b"])
            elif keyword in ("title", "description"):
                schema[keyword] = "words"
        if depth == 0 and self.want == "schema.enum":
            schema["properties"] = {"p0": {"enum": [1, "x"]}}
        return schema

    def member(self, name):
        """A good value of a step's member."""
        rng = self.rng
        return {
            "queue": self.queue,
            "handler": lambda: self.word(200),
            "config": self.value,
            "when": lambda: rng.choice(PATHS),
            "payload": self.value,
            "retryable": lambda: rng.random() < 0.5,
            "continue_on_failure": lambda: rng.random() < 0.5,
            "priority": lambda: rng.choice([0, 5, -32768, 32767, 1.0]),
            "tags": lambda: [rng.choice(["a", "b", "é", "x" * 63]) for _ in range(rng.randrange(4))],
            "key": lambda: self.word(500),
            "compensate": self.compensate,
            "max_attempts": lambda: rng.choice([1, -1, 3, 2147483647, 2.0]),
            "retry": lambda: rng.choice(["exponential", "linear", "fixed", None]),
            "retry_list": lambda: rng.choice([["1 s"], ["1 s", "5 min"], ["1 s"] * 100, None]),
            "retry_jitter": lambda: rng.choice([0, 1, 0.5, None]),
            "on_worker_death": lambda: rng.choice(["requeue", "hold", "kill", None]),
        }.get(name, lambda: rng.choice(INTERVALS + [None]))()

    def span(self):
        return self.rng.choice(INTERVALS + [{"$": "$.input.span"}, {"$": "$.results.s0"}])

    def waited_for(self, type):
        """A good value of the member that says what a step waits for."""
        rng, wait = self.rng, {}
        if type == "timer":
            if self.want == "timer.after" or self.want != "timer.at" and rng.random() < 0.5:
                return {"after": self.span()}
            return {"at": rng.choice(TIMES + [{"$": "$.input.time"}])}
        if type == "workflow":
            ways = {"name": lambda: rng.choice(CALLED + [f"w{rng.randrange(1, self.number + 1)}"]),
                    "namespace": lambda: rng.choice(["default", self.word(200)]),
                    "version": lambda: rng.choice(["1", self.word(200)]),
                    "input": self.value,
                    "key": lambda: rng.choice([self.word(500), {"$": "$.input.word"}])}
        else:
            ways = {"name": lambda: rng.choice(["go", self.word(200)]),
                    "timeout": self.span,
                    "on_timeout": lambda: rng.choice(["fail", "complete"])}
            if type == "approval":
                ways.update({"role": lambda: rng.choice(["pg_monitor", "missing", self.word(63)]),
                             "escalate_after": lambda: rng.choice(INTERVALS),
                             "escalate_to": lambda: rng.choice(["pg_monitor", self.word(63)])})
        for name, make in ways.items():
            if name == "name" or self.some(0.3, f"{WAITING[type]}.{name}"):
                wait[name] = make()
        for name, needed in {"on_timeout": ["timeout"], "escalate_after": ["escalate_to", "role"],
                             "escalate_to": ["escalate_after", "role"]}.items():
            if name in wait:
                wait.update({other: ways[other]() for other in needed if other not in wait})
        return wait

    def kind_of_wait(self):
        """One that has the member which is wanted."""
        where, name = (self.want or ".").split(".")
        where = name if where == "step" and name in ("workflow", "signal", "timer") else where
        wanted = [t for t, member in WAITING.items() if member == where]
        if name in ("role", "escalate_after", "escalate_to"):
            wanted = ["approval"]
        return self.rng.choice(wanted or list(WAITING))

    def wait(self, steps, depends_on):
        type = self.kind_of_wait()
        name = self.step(steps, type, depends_on)
        steps[-1][WAITING[type]] = self.waited_for(type)
        return name

    def wants_wait(self):
        return (self.want or "").split(".")[0] in ("workflow", "signal", "timer") \
            or self.want in ("step.workflow", "step.signal", "step.timer")

    def compensate(self):
        compensate = {"handler": self.member("handler")}
        if self.some(0.3, "compensate.queue"):
            compensate["queue"] = self.queue()
        if self.some(0.3, "compensate.config"):
            compensate["config"] = self.value()
        return compensate

    def step(self, steps, type=None, depends_on=None):
        rng = self.rng
        step = {"name": f"s{len(steps)}" if rng.random() < 0.9 else f"{self.word(1)} {len(steps)}"}
        if type or self.some(0.1, "step.type"):
            step["type"] = type or "standard"
        if depends_on or self.some(0.2, "step.depends_on"):
            step["depends_on"] = depends_on or []
        for name in STEP:
            if name in ("name", "type", "depends_on", "branches", "failure_strategy", "workflow", "signal", "timer"):
                continue
            if name == "payload" and type == "batch_worker" or name in FOR_WORKERS and type in WAITING:
                continue
            if name == "continue_on_failure" and type in ("decision", "batch", "batch_worker"):
                continue
            if name == "compensate":
                if self.compensates and (self.wants_compensate() or rng.random() < 0.4):
                    step[name] = self.member(name)
                continue
            if self.some(0.08, f"step.{name}"):
                step[name] = self.member(name)
        if rng.random() < 0.03 and type not in WAITING:
            step["retry"], step["retry_list"] = "list", ["1 s", "1 min"]
        steps.append(step)
        return step["name"]

    def block(self, steps, before):
        """Some steps more; what may follow."""
        rng = self.rng
        parents = rng.sample(before, min(len(before), rng.randrange(3)))
        kind = rng.random()
        if self.want and (self.want.startswith("branch.") or self.want == "step.branches"):
            kind = 0
        elif self.want == "step.failure_strategy":
            kind = 0.3
        elif self.wants_wait():
            kind = 0.6
        if kind < 0.25:
            place = len(steps)
            decision = self.step(steps, "decision", parents)
            children = [self.wait(steps, [decision]) if rng.random() < 0.2 else self.step(steps, None, [decision])
                        for _ in range(rng.randrange(1, 4))]
            if self.want and "branch" in self.want or rng.random() < 0.6:
                branches = []
                for _ in range(rng.randrange(1, 4)):
                    branch = {"steps": rng.sample(children, rng.randrange(len(children) + 1))}
                    if self.some(0.7, "branch.when"):
                        branch["when"] = rng.choice(PATHS)
                    branches.append(branch)
                steps[place]["branches"] = branches
            return [self.step(steps, "deferred", children)]
        if kind < 0.5:
            place = len(steps)
            batch = self.step(steps, "batch", parents)
            if self.some(0.5, "step.failure_strategy"):
                steps[place]["failure_strategy"] = rng.choice(["fail_fast", "continue_on_failure", "isolate"])
            return [self.step(steps, "deferred", [self.step(steps, "batch_worker", [batch])])]
        if kind < 0.7:
            return [self.wait(steps, parents)]
        return [self.step(steps, None, parents)]

    def wants_compensate(self):
        return self.want is not None and "compensate" in self.want

    def definition(self):
        rng = self.rng
        self.number += 1
        definition = {"name": f"w{self.number}", "version": self.word(200), "steps": []}
        self.compensates = self.wants_compensate() or rng.random() < 0.3
        before = []
        for _ in range(rng.randrange(5) if self.want is None else rng.randrange(1, 3)):
            before += self.block(definition["steps"], before)
        rest = {
            "namespace": lambda: self.word(200),
            "description": lambda: rng.choice(["", "words\n", "x" * 8192]),
            "identity": lambda: rng.choice(["unique", "strict", "key"]),
            "identity_window": lambda: rng.choice(INTERVALS + ["forever"]),
            "input_schema": self.schema,
            "queue": self.queue,
            "on_failure": lambda: "compensate" if self.compensates else rng.choice(["continue", "stop", "compensate"]),
            "retention": lambda: rng.choice(INTERVALS + ["forever"]),
        }
        for name, make in rest.items():
            if self.some(0.15, f"template.{name}") or (name == "on_failure" and self.compensates) or (name == "input_schema" and (self.want or "").startswith("schema.")):
                definition[name] = make()
        return definition

    def places(self, value, kind, of=None):
        """Where members of a kind are: (container, key)."""
        found = []
        where, name = kind.split(".")
        if where == "template":
            found = [(value, name)] if name in value else []
        elif where == "schema":
            def look(schema):
                if name in schema:
                    found.append((schema, name))
                for part in [schema.get("items")] + list(schema.get("properties", {}).values()):
                    if isinstance(part, dict):
                        look(part)
            look(value.get("input_schema", {}))
        else:
            for step in value["steps"]:
                for holder in [step] if where == "step" else step.get("branches", []) if where == "branch" \
                        else [step[where]] if where in step else []:
                    if name in holder:
                        found.append((holder, name))
        return found

    def wrong(self, old, kind):
        """Something else in a member's place; most of it is wrong."""
        rng = self.rng
        name = kind.split(".")[1]
        ways = [lambda: strange(rng), lambda: [old]] \
            + [lambda: rng.choice([None, 0.5, False, [0], {"x": 0}])] * 6
        if isinstance(old, str):
            ways += [lambda: old + "x", lambda: old.upper(), lambda: "", lambda: "x" * rng.choice([64, 201, 501, 8193])]
        if isinstance(old, (int, float)):
            ways += [lambda: rng.choice([-2, 0, 1.01, 0.5, 32768, -32769, 2147483648, 1e308, str(old)])]
        if isinstance(old, list):
            ways += [lambda: old + [strange(rng)], lambda: old + old, lambda: {"a": old},
                     lambda: old + old[:1], lambda: old * 101, lambda: [strange(rng) for _ in range(20)]]
        if isinstance(old, dict):
            ways += [lambda: {**old, "unknown": 1}, lambda: list(old)]
        if name in OPTIONS or name in ("identity_window", "retention", "timeout", "escalate_after", "after"):
            ways += [lambda: rng.choice(NO_INTERVALS)] * 3
        if name == "at":
            ways += [lambda: rng.choice(NO_TIMES)] * 3
        if name in ("timeout", "after", "at") or kind == "workflow.key":
            ways += [lambda: rng.choice([{"$": 1}, {}, {"$": "$.input", "x": 1}, {"x": "$"}, {"$": rng.choice(NO_PATHS)}])] * 2
        if name in ("role", "escalate_to"):
            ways += [lambda: "x" * 64, lambda: "é" * 32]
        if name == "queue":
            ways += [lambda: "*"]
        if name == "retry":
            ways += [lambda: "list"] * 2
        if name == "when":
            ways += [lambda: rng.choice(NO_PATHS)]
        if name == "pattern":
            ways += [lambda: rng.choice(["(", "[z-a]", "a{5,1}", "\\"])]
        if name == "payload":
            ways += [lambda: {"$": rng.choice(NO_PATHS)}]
        if name == "type":
            ways += [lambda: rng.choice(TYPES)] * 2
        return rng.choice(ways)()

    def mutate(self, definition, kind):
        rng = self.rng
        places = self.places(definition, kind)
        if not places:
            return
        holder, name = rng.choice(places)
        if rng.random() < 0.1:
            del holder[name]
        else:
            holder[name] = self.wrong(copy.deepcopy(holder[name]), kind)

    def mutate_anywhere(self, definition):
        """Names, edges and whole objects."""
        rng = self.rng
        steps = [s for s in definition.get("steps", []) if isinstance(s, dict)] \
            if isinstance(definition.get("steps"), list) else []
        way = rng.randrange(10)
        if way == 0:
            definition[rng.choice(["unknown", "Name", "", "a.b", "steps[0]"])] = strange(rng)
        elif not steps:
            return
        elif way == 1:
            rng.choice(steps)[rng.choice(["unknown", "retention", "order", "a.b", ""])] = strange(rng)
        elif way == 2:
            rng.choice(steps)["name"] = rng.choice([rng.choice(steps).get("name"), "compensate:s1"])
        elif way == 3:
            rng.choice(steps)["depends_on"] = [rng.choice(steps).get("name"), rng.choice(["missing", "s1", 5])]
        elif way == 4:
            definition["steps"][rng.randrange(len(steps))] = strange(rng)
        elif way == 5:
            rng.shuffle(definition["steps"])
        elif way == 6:
            rng.choice(steps)["branches"] = [{"when": "true", "steps": ["s1"]}, {rng.choice(["steps", "x"]): []}]
        elif way == 7:
            rng.choice(steps)[rng.choice(["failure_strategy", "payload"])] = "isolate"
        elif way == 8:
            rng.choice(steps)[rng.choice(["workflow", "signal", "timer"])] = \
                rng.choice([{"name": "go"}, {"name": "go", "role": "missing"}, {"after": "0 s"}, {"at": "now"}, strange(rng)])
        else:
            step = rng.choice(steps)
            step.pop(rng.choice(list(step) or [""]), None)

    def next(self, turn):
        rng = self.rng
        way = turn % 10
        if way < 2:         # as it should be
            self.want = KINDS[turn // 10 % len(KINDS)] if way == 0 else None
            definition = self.definition()
        elif way < 9:       # one member wrong
            self.want = TURNS[(turn // 10 * 7 + way) % len(TURNS)]
            definition = self.definition()
            self.mutate(definition, self.want)
        else:
            self.want = None
            definition = self.definition()
            for _ in range(rng.randrange(1, 4)):
                self.mutate_anywhere(definition)
        if turn % 500 == 499:
            definition = strange(rng)
        elif turn in (248, 249):
            definition = {"name": "edge", "version": "1", "steps": [{"name": "a", "priority": 32768 if turn == 248 else -32769}]}
        elif turn == 250:
            definition = {"name": "many", "version": "1", "steps": [{"name": str(i)} for i in range(10001)]}
        return definition


def leave_unbuilt(definition):
    """Does it say anything that is not built yet?"""
    if not isinstance(definition, dict):
        return False
    steps = definition.get("steps")
    return (any(f"template.{m}" in UNBUILT_MEMBERS for m in definition)
            or any(isinstance(s, dict) and any(f"step.{m}" in UNBUILT_MEMBERS for m in s)
                   for s in (steps if isinstance(steps, list) else [])))


def generate(seed, count):
    generator = Generator(seed)
    for turn in range(count):
        definition = generator.next(turn)
        assert not leave_unbuilt(definition)
        print(json.dumps({"definition": definition, "input": {"n": turn % 7, "word": "a", "list": [1, 2], "span": "0 s", "time": "now"}}))


# --- hostile ones

def nodes(value, found):
    """All places of a document: (container, key)."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], (dict, list)):
            nodes(value[key], found)
    return found


def nested(rng, depth):
    value = strange(rng)
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {rng.choice(["a", "items", "$", "steps"]): value}
    return value


def spoil(generator, definition):
    """Something anywhere becomes something else, goes or comes twice."""
    rng = generator.rng
    container, key = rng.choice(nodes(definition, []) or [(definition, "name")])
    way = rng.randrange(8)
    if way == 0 and isinstance(container, dict):
        container.pop(key, None)
    elif way == 1 and isinstance(container, list):
        container.append(copy.deepcopy(container[key]))
    elif way == 2 and isinstance(container, dict):
        container[rng.choice(STEP + TEMPLATE + WORKFLOW + SIGNAL + TIMER + ["publishes", "stale_after", "x" * 70000, "\n"])] = \
            copy.deepcopy(rng.choice(nodes(definition, []) or [({0: 1}, 0)])[0])
    elif way == 3:
        container[key] = nested(rng, rng.choice([1, 3, 300]))
    elif way == 4:
        container[key] = rng.choice(TYPES + NO_PATHS + PATHS + NO_INTERVALS + ["*", "$.input", "compensate"])
    elif way == 5:
        container[key] = generator.value()
    elif way == 6:
        other, place = rng.choice(nodes(definition, []) or [(definition, "name")])
        container[key] = copy.deepcopy(other.get(place) if isinstance(other, dict) else other[place])
    else:
        container[key] = strange(rng)


def hostile(seed, count):
    generator = Generator(seed)
    rng = generator.rng
    for turn in range(count):
        if rng.random() < 0.5:
            generator.want = None
            definition = generator.definition()
        else:
            definition = generator.next(turn)
        if rng.random() < 0.04 and isinstance(definition, dict):
            definition.update(rng.choice([{"queue": "*"}, {"stale_after": "1 h"}, {"max_duration": "1 day"}, {"on_failure": "compensate"}]))
        for _ in range(rng.choice([0, 0, 1, 2, 5])):
            if isinstance(definition, dict):
                spoil(generator, definition)
        print(json.dumps({"definition": definition, "input": {"n": turn % 7, "word": "a", "list": [1, 2], "span": "0 s", "time": "now"}}))


# --- comparison

def value_at(definition, path):
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        definition = definition[int(index)] if index else definition[name]
    return definition


def expressible(definition, path, problem):
    """Could a schema find it?"""
    if any(words.search(problem) for words in NOT_OF_A_SCHEMA):
        return False
    size = BYTES.search(problem)
    if size:    # a schema counts characters
        value = value_at(definition, path)
        return not (isinstance(value, str) and len(value) <= int(size.group(1)) < len(value.encode()))
    if problem.startswith("must be an interval from"):
        return not UNIT.search(value_at(definition, path))
    if problem.startswith("has a value that is not allowed"):
        value = value_at(definition, path)
        values = value if isinstance(value, list) and 0 < len(value) <= 100 else [value]
        return path.rsplit(".", 1)[1] in ("retry", "on_worker_death") \
            or not all(isinstance(v, str) and UNIT.search(v) for v in values)
    return True


def place(path):
    """The member to which a path belongs; options of a step are checked together."""
    wait = re.match(r"steps\[\d+\]\.(?:workflow|signal|timer)\.(.+?)(?=[.\[]|$)", path)
    if wait:
        return wait.group(0)
    found = re.match(r"steps\[\d+\](?:\.(.+?))?(?=[.\[]|$)", path)
    if not found:
        return re.split(r"[.\[]", path)[0]
    return f"{path[:path.index(']') + 1]} options" if found.group(1) in OPTIONS else found.group(0)


def engine_place(problem):
    """The member that the engine finds wrong."""
    if OPTIONS_TOGETHER.match(problem["problem"]):
        return problem["path"] + " options"
    return place(problem["path"])


def kind(path):
    """What kind of member a path is of; None: something else."""
    if path.startswith("input_schema."):
        return "schema." + re.sub(r"\[\d+\]", "", path).split(".")[-1]
    branch = re.match(r"steps\[\d+\]\.branches\[\d+\]\.(\w+)", path)
    if branch:
        return f"branch.{branch.group(1)}"
    wait = re.match(r"steps\[\d+\]\.((?:workflow|signal|timer)\.\w+)", path)
    if wait:
        return wait.group(1)
    compensate = re.match(r"steps\[\d+\]\.compensate\.(\w+)", path)
    if compensate:
        return f"compensate.{compensate.group(1)}"
    step = re.match(r"steps\[\d+\]\.(\w+)", path)
    return f"step.{step.group(1)}" if step else f"template.{re.split(r'[.[]', path)[0]}"


def schema_paths(validator, definition):
    """Paths of what a schema finds, as the engine writes them."""
    for error in validator.iter_errors(definition):
        path = ""
        for part in error.absolute_path:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
        more = []
        if error.validator == "required":
            more = [m for m in error.validator_value if m not in error.instance]
        elif error.validator == "additionalProperties":
            more = [m for m in error.instance if m not in error.schema.get("properties", {})]
        for name in more or [None]:
            yield path if name is None else f"{path}.{name}" if path else name


def members_of(definition):
    """Kinds of members that a good definition has."""
    def of_schema(schema):
        for keyword, value in schema.items():
            yield f"schema.{keyword}"
            for part in [value] if keyword == "items" else value.values() if keyword == "properties" else []:
                yield from of_schema(part)
    yield from (f"template.{m}" for m in definition)
    yield from of_schema(definition.get("input_schema", {}))
    for step in definition["steps"]:
        yield from (f"step.{m}" for m in step)
        yield f"type.{step.get('type', 'standard')}"
        for branch in step.get("branches", []):
            yield from (f"branch.{m}" for m in branch)
        for member in ("workflow", "signal", "timer"):
            yield from (f"{member}.{m}" for m in step.get(member, {}))
        yield from (f"compensate.{m}" for m in step.get("compensate", {}))


def read_schema(schema_file):
    import jsonschema
    with open(schema_file) as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema, jsonschema.Draft202012Validator(schema)


def check(schema_file, files):
    _, validator = read_schema(schema_file)
    for name in files:
        with open(name) as file:
            for path in schema_paths(validator, json.load(file)):
                print(f"{name}: {path}")


def compare(schema_file, members):
    schema, validator = read_schema(schema_file)
    of_schema = {f"template.{m}" for m in schema["properties"]} \
        | {f"step.{m}" for m in schema["$defs"]["step"]["properties"]}
    for member in of_schema ^ set(members):
        print(f"differs: {member} is known to {'the schema' if member in of_schema else 'the engine'} only")
    for member in of_schema - UNBUILT_MEMBERS - set(KINDS):
        print(f"differs: {member} is generated by nothing")
    valid, invalid, numbers = Counter(), Counter(), Counter()
    for line in sys.stdin:
        row = json.loads(line)
        definition, problems = row["definition"], row["problems"]
        engine = {engine_place(p) for p in problems}
        sure = {engine_place(p) for p in problems if expressible(definition, p["path"], p["problem"])}
        paths = set(schema_paths(validator, definition))
        found = {place(p) for p in paths}
        # the engine does not read a member that is not allowed for the type
        unread = {p["path"] for p in problems if p["problem"].startswith("is not allowed for type ")}
        found -= {p for p in found if p.count(".") == 2 and p.rsplit(".", 1)[0] in unread}
        numbers["definitions"] += 1
        numbers["valid"] += not problems
        numbers["left to the engine"] += bool(problems) and not sure
        if not sure <= found or not found <= engine:
            print(f"differs: {json.dumps(definition)[:2000]}: engine {json.dumps(problems)[:1000]}, schema {sorted(paths)}")
        if not problems:
            valid.update(set(members_of(definition)))
        for problem in problems:
            if place(problem["path"]) in found or OPTION.match(problem["problem"]):
                invalid[kind(problem["path"])] += 1
                if ".branches" in problem["path"]:
                    invalid["step.branches"] += 1
                if ".compensate." in problem["path"]:
                    invalid["step.compensate"] += 1
                if problem["path"].startswith("input_schema"):
                    invalid["template.input_schema"] += 1
    for member in KINDS + [f"type.{t}" for t in TYPES]:
        if valid[member] < NEEDED or (invalid[member] < NEEDED and member not in ANY_VALUE and not member.startswith("type.")):
            print(f"few: {member} was valid {valid[member]} times and invalid {invalid[member]}")
    numbers["times the rarest kind was invalid"] = min(invalid[m] for m in KINDS if m not in ANY_VALUE)
    print("numbers:", ", ".join(f"{n} {what}" for what, n in numbers.items()))


if sys.argv[1] == "generate":
    generate(int(sys.argv[2]), int(sys.argv[3]))
elif sys.argv[1] == "hostile":
    hostile(int(sys.argv[2]), int(sys.argv[3]))
elif sys.argv[1] == "check":
    check(sys.argv[2], sys.argv[3:])
else:
    compare(sys.argv[2], sys.argv[3:])
