import java.sql.*;
import java.util.concurrent.*;
/* A complete taskq worker in Java, with JDBC.
 *    javac -d . Worker.java
 *    java -cp .:/usr/share/java/postgresql.jar Worker QUEUE WORKER URL
 * URL is like jdbc:postgresql://localhost/postgres?user=me.  A task's payload is
 * {"n": 17}; its square is written into done_work.  "ms" makes it take that long,
 * "fail" makes it fail. */
public class Worker {
    static final ExecutorService pool = Executors.newSingleThreadExecutor();
    static volatile boolean leaving;    // take no more tasks
    static boolean dead;                // declared so: register as the same process
    static int status = 1;
    static long incarnation = new java.util.Random().nextLong();
    static String queue, worker, url;
    static Connection conn;
    static Future<String> result;       // of the task in hand, if there is one
    /** Execute a statement; its first row, which is empty if there is none. */
    static Object[] execute(String sql, Object... values) throws SQLException {
        try (PreparedStatement s = conn.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) s.setObject(i + 1, values[i]);
            ResultSet r = s.executeQuery();
            Object[] row = new Object[r.next() ? r.getMetaData().getColumnCount() : 0];
            for (int i = 0; i < row.length; i++) row[i] = r.getObject(i + 1);
            return row;
        }
    }

    /** Repeat it until its outcome is known: if a claim's answer was lost, registering
     *  again requeues its task.  No task ends twice.  Null: we have lost the task. */
    static Object[] call(String sql, Object... values) throws Exception {
        for (boolean last = leaving;; last = leaving) {
            boolean connected = conn != null;
            try {
                if (!connected) {
                    conn = DriverManager.getConnection(url);
                    execute("SELECT taskq_register(?, ARRAY[?], keep => ?, incarnation =>"
                        + " ?)", worker, queue, dead || result != null, incarnation);
                    dead = false;
                }
                return execute(sql, values);
            } catch (SQLException e) {
                String state = String.valueOf(e.getSQLState());
                if (state.matches("40001|40P01")) continue; // a conflict: repeat it
                System.err.println(worker + ": " + e);
                if (state.equals("TQ001")) return null;
                if (dead && state.equals("TQ007")) throw e; // another has our name
                if (connected && !state.matches("08.*|57P.*|TQ007")) throw e;
                dead |= state.equals("TQ007");
                if (dead && result != null) result.cancel(true);
                if (!connected && last && result == null) throw e;
                if (conn != null) conn.close();
                Thread.sleep(200);
                conn = null;                                // connect and register again
            }
        }
    }

    /** Send a heartbeat.  Returns the milliseconds until the next one is due. */
    static int heartbeat(long id) throws Exception {
        Object[] beat = call("SELECT ? = ANY (cancel), drain, (1000 * extract(epoch FROM"
            + " next_in))::int FROM taskq_heartbeat(?, ?)", id, worker, incarnation);
        if ((Boolean) beat[0]) result.cancel(true);
        leaving |= (Boolean) beat[1];                       // no more tasks for us
        return (Integer) beat[2];
    }

    /** The work itself, here mostly waiting.  A task that is cancelled is interrupted. */
    static String compute(String n, String ms, boolean fail) throws Exception {
        if (fail) throw new Exception("told to fail");
        var square = java.math.BigInteger.valueOf(Long.parseLong(n)).pow(2);
        Thread.sleep(Long.parseLong(ms));
        return square.toString();
    }

    /** One statement is one transaction: the row is there when the task is done.  It
     *  completes first: a worker that lost the task writes nothing. */
    static void doTask(long id, long token, String n, String ms, boolean fail)
            throws Exception {
        result = pool.submit(() -> compute(n, ms, fail));
        try {
            while (!result.isDone())
                try { result.get(heartbeat(id), TimeUnit.MILLISECONDS); }
                catch (TimeoutException e) { /* not yet */ }
            call("INSERT INTO done_work SELECT ?, ?::bigint, ?::numeric, ?"
                + " FROM taskq_complete(?, ?, jsonb_build_object('square', ?::numeric))"
                + " RETURNING 1", id, n, result.get(), worker, id, token, result.get());
        } catch (Exception e) {
            boolean retryable = !(e.getCause() instanceof NumberFormatException);
            call("SELECT taskq_fail(?, ?, ?, retryable => ?)", id, token, e.toString(),
                retryable);
        }
        result = null;
    }

    public static void main(String[] args) throws Exception {
        queue = args[0]; worker = args[1]; url = args[2];
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // SIGTERM
            leaving = true;
            try { main.join(); } catch (InterruptedException e) { /* does not happen */ }
            Runtime.getRuntime().halt(status);
        }));
        try {
            while (!leaving) {
                Object[] task = call("SELECT task_id, token, payload->>'n', coalesce("
                    + "payload->>'ms', '0'), payload->>'fail' FROM taskq_claim(?, ?,"
                    + " incarnation => ?)", queue, worker, incarnation);
                if (task.length == 0) Thread.sleep(Math.min(heartbeat(0), 200));
                else doTask((Long) task[0], (Long) task[1], (String) task[2],
                    (String) task[3], task[4] != null);
            }
            call("SELECT taskq_deregister(?, ?)", worker, incarnation);
        } finally {
            pool.shutdownNow();
        }
        status = 0;
    }
}
