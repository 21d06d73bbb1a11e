// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.net.SocketTimeoutException;

/** A request to the service, and its response. Another thread can end it at any time. */
final class Exchange {
    private final Connections connections;
    private final String url;
    private Connection current;
    private boolean isOver;

    /**
     * @param connections the connections to the service
     * @param url         the address of the service, for messages
     */
    Exchange(Connections connections, String url) {
        this.connections = connections;
        this.url = url;
    }

    /**
     * Returns the body of the response to a POST request. Blocks the current thread until the response is complete, or {@link #end} is called.
     *
     * <p>{@code timeoutMillis} does not limit the whole time, so the caller must call {@link #end} when the time is over. Only the lookup of the host
     * name cannot be ended.
     *
     * @param key           the API key, or null if the service has no keys
     * @param body          the JSON body of the request
     * @param timeoutMillis the longest time to wait for a connection, and for the next part of the response
     * @throws RewriteException if there is no complete response with status 200
     */
    byte[] post(String key, byte[] body, long timeoutMillis) {
        int timeout = (int) Math.min(timeoutMillis, Integer.MAX_VALUE);
        return Privileged.call(() -> {
            try {
                Connection idle = connections.take();
                if (idle != null) {
                    try {
                        return post(idle, key, body, timeout);
                    } catch (IOException e) {
                        if (e instanceof SocketTimeoutException || idle.hasResponse() || isOver()) {
                            throw e;
                        }
                        // The service may have closed this idle connection, and those that were idle for longer.
                        connections.close();
                    }
                }
                return post(connections.create(), key, body, timeout);
            } catch (IOException e) {
                boolean isLate = isOver() || e instanceof SocketTimeoutException;
                throw isLate ? late() : new RewriteException(Failure.UNREACHABLE, url + ": " + e);
            }
        });
    }

    /** Ends the exchange, if it is not complete. This method does not wait for the thread that runs the exchange. */
    synchronized void end() {
        isOver = true;
        if (current != null) {
            current.close();
        }
    }

    private byte[] post(Connection connection, String key, byte[] body, int timeout) throws IOException {
        boolean isKept = false;
        begin(connection);
        try {
            if (connection.isReusable() == false) {
                connection.open(timeout);
            }
            byte[] response = connection.post(key, body, timeout);
            isKept = connection.isReusable() && release();
            return response;
        } finally {
            if (isKept) {
                connections.keep(connection);
            } else {
                connection.close();
            }
        }
    }

    private synchronized void begin(Connection connection) {
        if (isOver) {
            connection.close();
            throw late();
        }
        current = connection;
    }

    /** Returns the connection to its caller, so that {@link #end} no longer closes it. Returns false if {@link #end} has already been called. */
    private synchronized boolean release() {
        current = null;
        return isOver == false;
    }

    private synchronized boolean isOver() {
        return isOver;
    }

    private RewriteException late() {
        return new RewriteException(Failure.TIMEOUT, url + " did not answer in time");
    }
}
