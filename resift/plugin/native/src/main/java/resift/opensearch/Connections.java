// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.net.URI;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * The idle connections to one address of the service. Each of them is kept for {@value #IDLE_MILLIS} ms. Their number is at most that of the
 * threads that call the service.
 */
final class Connections {
    static final long IDLE_MILLIS = 5_000;

    private record Idle(Connection connection, long sinceNanos) {}

    private final URI uri;
    private final RewriteClient.Scheduler scheduler;
    private final LongSupplier nanoTime;
    /** The connection that was used last comes first. */
    private final Deque<Idle> idle = new ArrayDeque<>();
    private boolean isTimerSet;

    /**
     * @param uri       the URL of the requests
     * @param scheduler closes connections that are idle for too long
     * @param nanoTime  a clock such as {@link System#nanoTime}
     */
    Connections(URI uri, RewriteClient.Scheduler scheduler, LongSupplier nanoTime) {
        this.uri = uri;
        this.scheduler = scheduler;
        this.nanoTime = nanoTime;
    }

    /** Returns an idle connection and removes it from the pool, or returns null if there is none. */
    synchronized Connection take() {
        closeOld();
        Idle newest = idle.pollFirst();
        return newest == null ? null : newest.connection();
    }

    /** Returns a new connection that is not open yet. */
    Connection create() {
        return new Connection(uri);
    }

    /** Keeps a connection for later calls. */
    synchronized void keep(Connection connection) {
        idle.addFirst(new Idle(connection, nanoTime.getAsLong()));
        setTimer();
    }

    /** Closes all idle connections. */
    synchronized void close() {
        idle.forEach(entry -> entry.connection().close());
        idle.clear();
    }

    private synchronized void closeOld() {
        long now = nanoTime.getAsLong();
        while (idle.isEmpty() == false && now - idle.peekLast().sinceNanos() >= TimeUnit.MILLISECONDS.toNanos(IDLE_MILLIS)) {
            idle.pollLast().connection().close();
        }
    }

    private void setTimer() {
        if (isTimerSet || idle.isEmpty()) {
            return;
        }
        try {
            scheduler.schedule(IDLE_MILLIS, this::ring);
            isTimerSet = true;
        } catch (RuntimeException e) { // the node is shutting down
            close();
        }
    }

    private synchronized void ring() {
        isTimerSet = false;
        closeOld();
        setTimer();
    }
}
