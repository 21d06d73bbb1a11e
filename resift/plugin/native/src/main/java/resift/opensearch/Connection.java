// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * A connection to the service, which speaks HTTP/1.1. Another thread can close it at any time, which ends all waiting.
 *
 * <p>{@link java.net.HttpURLConnection} cannot be interrupted reliably. Its method {@code disconnect} itself waits as long as another thread sends
 * over TLS, or reads the length of a chunk (Java 17 to 25). {@link java.net.http.HttpClient} can be interrupted, but takes at least twice as much
 * CPU time, because it passes each request through several threads.
 */
final class Connection {
    /** The longest response body, in bytes. A longer one could exhaust the memory of the node. */
    static final int MAX_BYTES = 16 * 1024 * 1024;
    private static final int MAX_HEADER_BYTES = 64 * 1024;
    private static final int OK = 200;
    private static final int SWITCHING_PROTOCOLS = 101;
    private static final Pattern STATUS = Pattern.compile("HTTP/1\\.([01]) (\\d{3})( .*)?");
    private static final Pattern LENGTH = Pattern.compile("\\d{1,18}");
    private static final Pattern CHUNK_LENGTH = Pattern.compile("([0-9a-fA-F]{1,15})\\s*(;.*)?");

    private final URI uri;
    private final Socket socket = new Socket(Proxy.NO_PROXY);
    private InputStream in;
    private OutputStream out;
    private int headerBytes;
    private boolean hasResponse;
    private boolean isReusable;

    /**
     * Creates a connection that is not open yet.
     *
     * @param uri the URL of the requests
     */
    Connection(URI uri) {
        this.uri = uri;
    }

    /**
     * Opens the connection.
     *
     * @param timeoutMillis the longest time to wait for the connection
     */
    void open(int timeoutMillis) throws IOException {
        boolean isSecure = uri.getScheme().equals("https");
        int port = uri.getPort() >= 0 ? uri.getPort() : isSecure ? 443 : 80;
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(timeoutMillis);
        // The lookup of the host name cannot be interrupted. The operating system limits its time.
        socket.connect(new InetSocketAddress(uri.getHost(), port), timeoutMillis);
        Socket encrypted = isSecure ? secure(port) : socket;
        in = new BufferedInputStream(encrypted.getInputStream());
        out = encrypted.getOutputStream();
    }

    private Socket secure(int port) throws IOException {
        SSLSocket encrypted = (SSLSocket) HttpsURLConnection.getDefaultSSLSocketFactory().createSocket(socket, uri.getHost(), port, true);
        SSLParameters parameters = encrypted.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS"); // check the name in the certificate
        encrypted.setSSLParameters(parameters);
        encrypted.startHandshake();
        return encrypted;
    }

    /** Closes the connection. Threads that wait for it get an exception. */
    void close() {
        try {
            socket.close(); // SSLSocket.close() would wait for a thread that is writing
        } catch (IOException e) {
            // It is closed anyway.
        }
    }

    /** Returns whether a response to the current request has begun. */
    boolean hasResponse() {
        return hasResponse;
    }

    /** Returns whether the connection can send another request. */
    boolean isReusable() {
        return isReusable;
    }

    /**
     * Sends a request, and returns the body of the response.
     *
     * @param key           the API key, or null if the service has no keys
     * @param body          the JSON body of the request
     * @param timeoutMillis the longest time to wait for the next part of the response
     * @throws IOException      if the connection breaks, or if the timeout is over
     * @throws RewriteException if the response is not an HTTP response with status 200, or has more than {@link #MAX_BYTES} bytes
     */
    byte[] post(String key, byte[] body, int timeoutMillis) throws IOException {
        isReusable = false;
        hasResponse = false;
        headerBytes = 0;
        socket.setSoTimeout(timeoutMillis);
        byte[] head = head(key, body.length);
        byte[] request = Arrays.copyOf(head, head.length + body.length);
        System.arraycopy(body, 0, request, head.length, body.length);
        out.write(request); // in as few packets as possible
        out.flush();
        return receive();
    }

    private byte[] head(String key, int length) {
        StringBuilder head = new StringBuilder();
        head.append("POST ").append(URI.create(uri.toASCIIString()).getRawPath()).append(" HTTP/1.1\r\n");
        head.append("Host: ").append(uri.getRawAuthority()).append("\r\n");
        head.append("User-Agent: resift-opensearch\r\nAccept: application/json\r\nContent-Type: application/json\r\n");
        if (key != null) {
            if (key.chars().allMatch(c -> c >= ' ' && c <= '~') == false) {
                throw new RewriteException(Failure.UNAUTHORIZED, "the API key contains characters that cannot be sent");
            }
            head.append("Authorization: Bearer ").append(key).append("\r\n");
        }
        head.append("Content-Length: ").append(length).append("\r\n\r\n");
        return head.toString().getBytes(StandardCharsets.US_ASCII);
    }

    private byte[] receive() throws IOException {
        Matcher status;
        int code;
        Map<String, String> headers;
        do { // until the response is not an interim one, such as 100
            status = STATUS.matcher(readLine());
            if (status.matches() == false) {
                throw unreadable("without an HTTP status");
            }
            code = Integer.parseInt(status.group(2));
            headers = readHeaders();
        } while (code < OK && code != SWITCHING_PROTOCOLS);
        if (code != OK) {
            throw new RewriteException(Failure.ofStatus(code), uri + " answered with status " + code);
        }
        String encoding = headers.get("transfer-encoding");
        String length = headers.get("content-length");
        boolean isPersistent = status.group(1).equals("1") && headers.getOrDefault("connection", "").toLowerCase(Locale.ROOT).contains("close") == false;
        byte[] body;
        if (encoding != null) {
            if (encoding.equalsIgnoreCase("chunked") == false) {
                throw unreadable("with the transfer encoding [" + encoding + "]");
            }
            body = readChunks();
        } else if (length != null) {
            if (LENGTH.matcher(length).matches() == false) {
                throw unreadable("with a malformed length");
            }
            body = readBytes(checked(Long.parseLong(length)));
        } else {
            isPersistent = false; // the end of the body is the end of the connection
            body = in.readNBytes(MAX_BYTES + 1);
            checked(body.length);
        }
        isReusable = isPersistent && (encoding == null || length == null) && in.available() == 0;
        return body;
    }

    /** Reads headers up to the empty line. Names are in lower case. Values of a repeated header are separated by commas. */
    private Map<String, String> readHeaders() throws IOException {
        Map<String, String> headers = new HashMap<>();
        for (String line = readLine(); line.isEmpty() == false; line = readLine()) {
            int colon = line.indexOf(':');
            if (colon <= 0) {
                throw unreadable("with a malformed header");
            }
            headers.merge(line.substring(0, colon).toLowerCase(Locale.ROOT), line.substring(colon + 1).strip(), (a, b) -> a + "," + b);
        }
        return headers;
    }

    private byte[] readChunks() throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        while (true) {
            headerBytes = 0;
            Matcher line = CHUNK_LENGTH.matcher(readLine());
            if (line.matches() == false) {
                throw unreadable("with a malformed chunk");
            }
            long length = Long.parseLong(line.group(1), 16);
            if (length == 0) {
                readHeaders();
                return body.toByteArray();
            }
            checked(body.size() + length);
            body.write(readBytes((int) length));
            if (readLine().isEmpty() == false) {
                throw unreadable("with a malformed chunk");
            }
        }
    }

    private byte[] readBytes(int length) throws IOException {
        byte[] bytes = in.readNBytes(length);
        if (bytes.length < length) {
            throw new EOFException("the response is incomplete");
        }
        return bytes;
    }

    /** Reads a line without the characters at its end. */
    private String readLine() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = in.read(); c != '\n'; c = in.read()) {
            if (c < 0) {
                throw new EOFException(hasResponse ? "the response is incomplete" : "the connection was closed");
            }
            hasResponse = true;
            if (++headerBytes > MAX_HEADER_BYTES) {
                throw unreadable("with too long headers");
            }
            line.append((char) c);
        }
        int length = line.length();
        return length > 0 && line.charAt(length - 1) == '\r' ? line.substring(0, length - 1) : line.toString();
    }

    private int checked(long length) {
        if (length > MAX_BYTES) {
            throw unreadable("with more than " + MAX_BYTES + " bytes");
        }
        return (int) length;
    }

    private RewriteException unreadable(String how) {
        return new RewriteException(Failure.UNREADABLE, uri + " answered " + how);
    }
}
