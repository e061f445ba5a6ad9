# doc/workflow.schema.json and taskq_validate_workflow agree on some thousands
# of valid and mutated definitions: if one rejects a member, the other rejects
# it, too. The engine alone checks what a schema cannot express: unique names
# of steps, missing steps, cycles and which types may follow each other,
# jsonpaths, regular expressions, valid intervals and their bounds, bytes that
# are not characters, duplicate tags. workflow_definitions.py has the list, and
# leaves out members that are not built yet.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $COUNT = $ENV{LONG} ? 20000 : 8000;
my $top = "$FindBin::Bin/../..";

# Debian's package belongs to Debian's Python.
my ($python) = grep { system("$_ -c 'import jsonschema' 2>/dev/null") == 0 } '/usr/bin/python3', 'python3';
plan skip_all => 'needs python3-jsonschema' unless $python;

my $seed = $ENV{SEED} // time;
my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $program = "$FindBin::Bin/lib/workflow_definitions.py";
note "seed $seed";

# The members that the engine knows, read from its source
my $source = slurp_file("$top/src/flow/definition/definition.c");
my @members;
for my $what ('template', 'step')
{
	my ($table) = $source =~ /^static const Known of_$what\[\] = \{(.*?)^\};/ms;
	push @members, map { "$what.$_" } ($table // '') =~ /\{"(\w+)"/g;
}
cmp_ok(scalar @members, '>', 30, 'the members that the engine knows');

my $node = start_node('schema', 'fsync' => 'off');
my $sql = sub { $node->safe_psql('postgres', shift) };
IPC::Run::run([ $python, $program, 'generate', $seed, $COUNT ], '>', "$dir/definitions_$$")
  or die 'no definitions were generated';
my $format = q{(FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02')};
$sql->(<<"SQL");
CREATE TABLE definition (n serial, line json NOT NULL);
COPY definition (line) FROM '$dir/definitions_$$' $format;
COPY (SELECT jsonb_build_object('definition', definition, 'problems',
        (SELECT coalesce(jsonb_agg(p), '[]') FROM taskq_validate_workflow(definition) p))
    FROM (SELECT n, (line -> 'definition')::text::jsonb AS definition FROM definition) d
    ORDER BY n) TO '$dir/problems_$$' $format;
SQL
is($sql->('SELECT count(*) FROM definition'), $COUNT, "$COUNT definitions (seed $seed)");

my ($out, $err) = ('', '');
ok(IPC::Run::run([ $python, $program, 'compare', "$top/doc/workflow.schema.json", @members ],
		'<', "$dir/problems_$$", '>', \$out, '2>', \$err), 'compared')
  or diag $err;
my @lines = split /\n/, $out;
my @differ = grep { /^differs: / } @lines;
is(scalar @differ, 0, "the schema and the engine agree (seed $seed)") or diag join "\n", @differ[ 0 .. ($#differ < 9 ? $#differ : 9) ];
is(join("\n", grep { /^few: / } @lines), '', 'each kind of member was valid often enough, and invalid');
note 'figure: ', grep { /^numbers: / } @lines;
my @examples = glob "$top/examples/workflows/*.json";
$out = '';
ok(IPC::Run::run([ $python, $program, 'check', "$top/doc/workflow.schema.json", @examples ], '>', \$out), @examples . ' examples');
is($out, '', 'they are as the schema says');
unlink "$dir/definitions_$$", "$dir/problems_$$";

sound($node);
$node->stop('fast');
done_testing();
