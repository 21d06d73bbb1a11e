// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.Socket;
import java.net.URI;

import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

import org.apache.hc.core5.http.ClassicHttpRequest;
import org.apache.hc.core5.http.ClassicHttpResponse;
import org.apache.hc.core5.http.ConnectionClosedException;
import org.apache.hc.core5.http.HttpException;
import org.apache.hc.core5.http.HttpHeaders;
import org.apache.hc.core5.http.HttpResponse;
import org.apache.hc.core5.http.HttpStatus;
import org.apache.hc.core5.http.MalformedChunkCodingException;
import org.apache.hc.core5.http.MessageConstraintException;
import org.apache.hc.core5.http.TruncatedChunkException;
import org.apache.hc.core5.http.config.Http1Config;
import org.apache.hc.core5.http.impl.io.DefaultBHttpClientConnection;
import org.apache.hc.core5.http.impl.io.DefaultHttpResponseParser;
import org.apache.hc.core5.http.impl.io.DefaultHttpResponseParserFactory;
import org.apache.hc.core5.http.impl.io.HttpRequestExecutor;
import org.apache.hc.core5.http.io.HttpMessageParser;
import org.apache.hc.core5.http.io.SessionInputBuffer;
import org.apache.hc.core5.http.io.entity.ByteArrayEntity;
import org.apache.hc.core5.http.message.BasicClassicHttpRequest;
import org.apache.hc.core5.http.protocol.HttpCoreContext;
import org.apache.hc.core5.util.Timeout;

/**
 * A connection to the service. Another thread can close it at any time, which ends all waiting.
 *
 * <p>Apache HttpComponents Core writes the requests and reads the responses. This class only opens and closes the sockets, because other clients
 * cannot be interrupted reliably. After {@code cancel}, Apache HttpClient 5.6 still waits for the next address of the host name, or for the first
 * address after a slow lookup. The method {@code disconnect} of {@link java.net.HttpURLConnection} itself waits as long as another thread sends
 * over TLS, or reads the length of a chunk (Java 17 to 25). {@link java.net.http.HttpClient} can be interrupted, but takes at least twice as much
 * CPU time, because it passes each request through several threads.
 */
final class Connection {
    /** The longest response body, in bytes. A longer one could exhaust the memory of the node. */
    static final int MAX_BYTES = 16 * 1024 * 1024;
    /** The greatest length of all headers of a response together, in bytes, including interim responses such as 100. */
    private static final int MAX_HEADER_BYTES = 64 * 1024;
    private static final Http1Config LIMITS = Http1Config.custom().setMaxLineLength(8 * 1024).setMaxHeaderCount(100).build();
    private static final HttpRequestExecutor EXECUTOR = new HttpRequestExecutor();

    private final URI uri;
    private final Socket socket = new Socket(Proxy.NO_PROXY);
    private final DefaultBHttpClientConnection http = new DefaultBHttpClientConnection(LIMITS, null, null, null, null, null, new HeaderParsers());
    private SessionInputBuffer buffer;
    private InputStream in;
    private int headerBytes;
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
        if (isSecure) {
            http.bind(secure(port), socket);
        } else {
            http.bind(socket);
        }
    }

    private SSLSocket secure(int port) throws IOException {
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
        return headerBytes > 0;
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
        headerBytes = 0;
        ClassicHttpRequest request = request(key, body);
        HttpCoreContext context = HttpCoreContext.create();
        http.setSocketTimeout(Timeout.ofMilliseconds(timeoutMillis));
        try {
            ClassicHttpResponse response = EXECUTOR.execute(request, http, (interim, connection, ignored) -> {
                if (interim.getCode() == HttpStatus.SC_SWITCHING_PROTOCOLS) { // what follows is not HTTP
                    throw failed(interim);
                }
            }, context);
            if (response.getCode() != HttpStatus.SC_OK) {
                throw failed(response);
            }
            // The response is not closed, because that would read the rest of a body that is too long.
            byte[] content = response.getEntity().getContent().readNBytes(MAX_BYTES + 1);
            if (content.length > MAX_BYTES) {
                throw unreadable("with more than " + MAX_BYTES + " bytes");
            }
            isReusable = EXECUTOR.keepAlive(request, response, http, context) && buffer.length() == 0 && in.available() == 0;
            return content;
        } catch (TruncatedChunkException e) {
            throw e; // the connection broke
        } catch (HttpException | MalformedChunkCodingException | MessageConstraintException e) {
            throw unreadable("with a malformed response: " + e.getMessage());
        }
    }

    private ClassicHttpRequest request(String key, byte[] body) {
        ClassicHttpRequest request = new BasicClassicHttpRequest("POST", URI.create(uri.toASCIIString()));
        request.addHeader(HttpHeaders.HOST, uri.getRawAuthority());
        request.addHeader(HttpHeaders.USER_AGENT, "resift-opensearch");
        request.addHeader(HttpHeaders.ACCEPT, "application/json");
        request.addHeader(HttpHeaders.CONTENT_TYPE, "application/json");
        if (key != null) {
            if (key.chars().allMatch(c -> c >= ' ' && c <= '~') == false) {
                throw new RewriteException(Failure.UNAUTHORIZED, "the API key contains characters that cannot be sent");
            }
            request.addHeader(HttpHeaders.AUTHORIZATION, "Bearer " + key);
        }
        request.addHeader(HttpHeaders.CONTENT_LENGTH, body.length);
        request.setEntity(new ByteArrayEntity(body, null));
        return request;
    }

    private RewriteException failed(HttpResponse response) {
        return new RewriteException(Failure.ofStatus(response.getCode()), uri + " answered with status " + response.getCode());
    }

    private RewriteException unreadable(String how) {
        return new RewriteException(Failure.UNREADABLE, uri + " answered " + how);
    }

    /**
     * Parses the headers of responses with the library's parser, which has no limit for the number of interim responses, and takes the end of the
     * connection for the end of the headers.
     */
    private final class HeaderParsers extends DefaultHttpResponseParserFactory {
        @Override
        public HttpMessageParser<ClassicHttpResponse> create() {
            HttpMessageParser<ClassicHttpResponse> parser = new DefaultHttpResponseParser(LIMITS);
            return (sessionBuffer, inputStream) -> {
                buffer = sessionBuffer;
                in = inputStream;
                return parser.parse(sessionBuffer, new HeaderStream(inputStream));
            };
        }
    }

    /** The part of the connection's data that is read to parse headers. */
    private final class HeaderStream extends FilterInputStream {
        HeaderStream(InputStream in) {
            super(in);
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            int count = super.read(bytes, offset, length);
            if (count < 0) {
                throw new ConnectionClosedException(hasResponse() ? "the response is incomplete" : "the connection was closed");
            }
            headerBytes += count;
            if (headerBytes > MAX_HEADER_BYTES) {
                throw new MessageConstraintException("the headers are too long");
            }
            return count;
        }
    }
}
