import java.sql.*;
import java.util.Arrays;
import java.util.concurrent.*;

/* A complete taskq worker in Java, with JDBC.
 *
 *    javac -d . Worker.java && java -cp .:/usr/share/java/postgresql.jar Worker QUEUE WORKER URL
 *
 * URL is like jdbc:postgresql://localhost/postgres?user=me.  A task's payload is {"n": 17}; its
 * square is written into done_work.  "ms" makes it take that long, "fail" makes it fail. */
public class Worker {
    interface Work { Object[] on(Connection c) throws SQLException; }

    record Task(long id, long token, String n, String ms, String fail, CountDownLatch dropped) {}

    static final CountDownLatch leaving = new CountDownLatch(1);    // take no more tasks
    static final CountDownLatch finished = new CountDownLatch(1);   // no more heartbeats either
    static String queue, worker, url;
    static volatile Task task;                                      // in hand
    static Connection conn;                                         // of the main thread
    static int status = 1;

    /** Run one statement; its first row, or null. */
    static Object[] run(Connection c, String sql, Object... values) throws SQLException {
        try (PreparedStatement s = c.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) s.setObject(i + 1, values[i]);
            if (!s.execute() || !s.getResultSet().next()) return null;
            Object[] row = new Object[s.getMetaData().getColumnCount()];
            for (int i = 0; i < row.length; i++) row[i] = s.getResultSet().getObject(i + 1);
            return row;
        }
    }

    /** keep: we go on, with our tasks.  Otherwise what we seem to hold goes back at once. */
    static Connection connect(boolean keep) throws SQLException {
        Connection c = DriverManager.getConnection(url);
        run(c, "SELECT taskq_register(?, ARRAY[?], keep => ?)", worker, queue, keep);
        return c;
    }

    static void close(Connection c) {
        try { if (c != null) c.close(); } catch (SQLException e) { /* it was lost anyway */ }
    }

    /** In a thread, with a connection of its own: we live, however long a task takes. */
    static void heartbeats() {
        Connection c = null;
        int pause = 0;
        while (!wait(finished, pause)) {
            Task t = task;
            try {
                if (c == null) c = connect(true);
                Object[] beat = run(c, "SELECT cancel, drain, (extract(epoch FROM next_in) * 1000)::int"
                    + " FROM taskq_heartbeat(?)", worker);
                if (t != null && Arrays.asList((Long[]) ((Array) beat[0]).getArray()).contains(t.id))
                    t.dropped.countDown();                          // cancelled
                if ((Boolean) beat[1]) leaving.countDown();         // somebody wants us to leave
                pause = (Integer) beat[2];
            } catch (SQLException e) {                              // TQ007: silent for too long,
                if ("TQ007".equals(e.getSQLState()) && t != null) t.dropped.countDown(); // it is lost
                close(c);                                           // connect and register anew
                c = null;
                pause = 200;
            }
        }
        close(c);
    }

    /** Call work in a transaction, again until the answer is known. */
    static Object[] transaction(Work work) throws SQLException {
        for (;;) {
            try {
                if (conn == null) conn = connect(task != null);
                conn.setAutoCommit(false);
                Object[] result = work.on(conn);
                conn.commit();
                return result;
            } catch (SQLException e) {
                String state = e.getSQLState() == null ? "" : e.getSQLState();
                if (!state.startsWith("08") && !state.startsWith("57P")) {
                    if (conn != null) conn.rollback();
                    if (state.equals("40001") || state.equals("40P01")) continue; // just once more
                    throw e;
                }
                // The connection was lost, and nobody knows whether we had committed.  To repeat
                // it is right: a claim that we never heard of goes back when we register with
                // empty hands, and a finishing call cannot count twice.
                System.err.println(worker + ": connection lost: " + e.getMessage());
                if (conn == null && leaving.getCount() == 0 && task == null) throw e;
                close(conn);
                conn = null;
                wait(finished, 200);
            }
        }
    }

    /** True: it came to that within so many milliseconds. */
    static boolean wait(CountDownLatch latch, long ms) {
        try { return latch.await(ms, TimeUnit.MILLISECONDS); } catch (InterruptedException e) { return true; }
    }

    /** The work itself, here mostly waiting.  Yours looks at dropped now and then. */
    static String compute(Task t) throws Exception {
        if (t.fail != null) throw new Exception("told to fail");
        long n = Long.parseLong(t.n);
        if (t.ms != null && wait(t.dropped, Long.parseLong(t.ms))) throw new Exception("cancelled");
        return java.math.BigInteger.valueOf(n).pow(2).toString();
    }

    static void doTask(Task t) throws SQLException {
        try {
            String square = compute(t);
            transaction(c -> {                  // complete first: who lost the task writes nothing
                run(c, "SELECT taskq_complete(?, ?, jsonb_build_object('square', ?::numeric))", t.id, t.token, square);
                return run(c, "INSERT INTO done_work VALUES (?, ?::bigint, ?::numeric, ?)", t.id, t.n, square, worker);
            });
        } catch (Exception e) {
            if (e instanceof SQLException s && "TQ001".equals(s.getSQLState())) throw s; // not ours any more
            boolean retryable = !(e instanceof NumberFormatException);
            transaction(c -> run(c, "SELECT taskq_fail(?, ?, ?, retryable => ?)", t.id, t.token, e.toString(), retryable));
        }
    }

    static void work() throws SQLException {
        for (long idle = 100; leaving.getCount() > 0; task = null) {
            try {
                Object[] row = transaction(c -> run(c, "SELECT task_id, token, payload->>'n', payload->>'ms',"
                    + " payload->>'fail' FROM taskq_claim(?, ?)", queue, worker));
                if (row != null) {
                    idle = 100;
                    task = new Task((Long) row[0], (Long) row[1], (String) row[2], (String) row[3],
                        (String) row[4], new CountDownLatch(1));
                    doTask(task);
                } else {                        // an idle worker looks ever less often
                    wait(leaving, idle);
                    idle = Math.min(2 * idle, 1000);
                }
            } catch (SQLException e) {          // TQ007: the heartbeats register us again
                if (!"TQ001".equals(e.getSQLState()) && !"TQ007".equals(e.getSQLState())) throw e;
            }
        }
    }

    public static void main(String[] args) throws Exception {
        queue = args[0];
        worker = args[1];
        url = args[2];
        Thread main = Thread.currentThread(), beating = new Thread(Worker::heartbeats);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {     // SIGTERM
            leaving.countDown();
            try { main.join(); } catch (InterruptedException e) { /* nobody does that */ }
            Runtime.getRuntime().halt(status);
        }));
        transaction(c -> null);                 // connect and register
        beating.setDaemon(true);
        beating.start();
        work();
        finished.countDown();
        beating.join(5000);
        transaction(c -> run(c, "SELECT taskq_deregister(?)", worker));
        status = 0;
    }
}
