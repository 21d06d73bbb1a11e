// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.util.function.BooleanSupplier;

/**
 * Sends a request to the service, and blocks the current thread until the response is there.
 *
 * <p>{@link java.net.http.HttpClient} blocks no thread, but passes each request through several threads. This takes three times as much
 * CPU time as a blocking call ({@code benchmarks/native.py} measures the call).
 */
final class Exchange {
    /** The longest response, in bytes. A longer response could exhaust the memory of the node. */
    static final int MAX_BYTES = 16 * 1024 * 1024;
    private static final int OK = 200;

    private Exchange() {}

    /**
     * Returns the body of the response to a POST request.
     *
     * @param uri           where to send the request
     * @param key           the API key, or null if the service has no keys
     * @param body          the JSON body of the request
     * @param timeoutMillis how long to wait for a connection, and for each part of the response
     * @param isOver        tells, after each part of the response, whether nobody waits for the rest
     * @throws RewriteException if there is no complete response with status 200, or if it has more than {@link #MAX_BYTES} bytes
     */
    static byte[] post(URI uri, String key, byte[] body, long timeoutMillis, BooleanSupplier isOver) {
        return Privileged.call(() -> {
            try {
                HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
                try {
                    return receive(send(connection, key, body, (int) Math.min(timeoutMillis, Integer.MAX_VALUE)), isOver);
                } catch (IOException | RuntimeException e) {
                    connection.disconnect(); // the rest of the response is of no use
                    throw e;
                }
            } catch (SocketTimeoutException e) {
                throw new RewriteException(Failure.TIMEOUT, uri + ": " + e.getMessage());
            } catch (IOException e) {
                throw new RewriteException(Failure.UNREACHABLE, uri + ": " + e);
            }
        });
    }

    private static HttpURLConnection send(HttpURLConnection connection, String key, byte[] body, int timeoutMillis) throws IOException {
        connection.setConnectTimeout(timeoutMillis);
        connection.setReadTimeout(timeoutMillis);
        connection.setInstanceFollowRedirects(false);
        connection.setUseCaches(false);
        connection.setDoOutput(true);
        connection.setRequestMethod("POST");
        connection.setRequestProperty("Content-Type", "application/json");
        connection.setRequestProperty("Accept", "application/json");
        if (key != null) {
            connection.setRequestProperty("Authorization", "Bearer " + key);
        }
        try (OutputStream out = connection.getOutputStream()) {
            out.write(body);
        }
        return connection;
    }

    private static byte[] receive(HttpURLConnection connection, BooleanSupplier isOver) throws IOException {
        int status = connection.getResponseCode();
        if (status != OK) {
            throw new RewriteException(Failure.ofStatus(status), connection.getURL() + " answered with status " + status);
        }
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        byte[] part = new byte[8192];
        try (InputStream in = connection.getInputStream()) {
            for (int length; (length = in.read(part)) >= 0;) {
                if (body.size() + length > MAX_BYTES) {
                    throw new RewriteException(Failure.UNREADABLE, connection.getURL() + " answered with more than " + MAX_BYTES + " bytes");
                }
                if (isOver.getAsBoolean()) {
                    throw new SocketTimeoutException("the response did not end in time");
                }
                body.write(part, 0, length);
            }
        }
        return body.toByteArray();
    }
}
