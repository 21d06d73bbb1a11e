// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;

import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.xcontent.ToXContentFragment;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;

/** The parts that all processors of a node share: the HTTP client, the circuit breakers and the counters. */
final class Rewriting implements ToXContentFragment {
    static final String DEFAULT_TIMEOUT = "300ms";
    private static final Logger logger = LogManager.getLogger(Rewriting.class);

    private final RewriteClient client;
    private final ThreadContext threadContext;
    private final Path config;
    private final Supplier<String> keystoreKey;
    private final Supplier<TimeValue> defaultLimit;
    /** The endpoints by URL. Processors that use them keep them, since OpenSearch does not report when it drops a processor. */
    private final Map<String, WeakReference<Endpoint>> endpoints = new TreeMap<>();
    private final Stats stats = new Stats(System::nanoTime, logger::warn);

    /**
     * @param client        calls the service
     * @param threadContext the headers and the user of the current thread
     * @param config        the folder of the node's configuration
     * @param keystoreKey   supplies the API key in the keystore, or null if there is none
     * @param defaultLimit  supplies the time after which OpenSearch cancels searches that set none themselves. It is negative if it does not.
     */
    Rewriting(
        RewriteClient client,
        ThreadContext threadContext,
        Path config,
        Supplier<String> keystoreKey,
        Supplier<TimeValue> defaultLimit
    ) {
        this.defaultLimit = defaultLimit;
        this.client = client;
        this.threadContext = threadContext;
        this.config = config;
        this.keystoreKey = keystoreKey;
    }

    /**
     * Returns the longest time that a search can wait for the service, in milliseconds. It is half of the time after which OpenSearch cancels the
     * search, so that the other half remains for the search itself.
     */
    long patienceMillis(SearchRequest request) {
        TimeValue limit = request.getCancelAfterTimeInterval();
        TimeValue effective = limit == null ? defaultLimit.get() : limit;
        return effective.millis() > 0 ? effective.millis() / 2 : Long.MAX_VALUE;
    }

    /**
     * Returns whether a search belongs to a session. Logs the keys of {@code ext.resift} if they do not name a session, because the service does not
     * see such a search.
     *
     * @param source the search body, or null if the request has none
     */
    boolean isInSession(SearchSourceBuilder source) {
        if (Sections.nameSession(source)) {
            return true;
        }
        Set<String> keys = Sections.keysWithoutSession(source);
        if (keys.isEmpty() == false) {
            stats.withoutSession(keys);
        }
        return false;
    }

    RewriteClient client() {
        return client;
    }

    ThreadContext threadContext() {
        return threadContext;
    }

    Stats stats() {
        return stats;
    }

    /**
     * Describes how to call the service.
     *
     * @param urls          the base URLs, in the order in which they are tried
     * @param timeoutMillis the maximum time in milliseconds that a search waits, including all URLs
     * @param keyFile       the path of a file with the API key inside the config directory, or null for the key in the keystore
     * @throws IllegalArgumentException if a URL is malformed, or the path leads out of the config directory
     */
    Service service(List<String> urls, long timeoutMillis, String keyFile) {
        List<Endpoint> used = urls.stream().distinct().map(this::endpoint).toList();
        return new Service(used, timeoutMillis, keyFile == null ? keystoreKey : ApiKey.inFile(config, keyFile));
    }

    /** Returns the endpoint with this URL that other processors use, or else a new one. */
    private Endpoint endpoint(String url) {
        synchronized (endpoints) {
            WeakReference<Endpoint> known = endpoints.get(url);
            Endpoint endpoint = known == null ? null : known.get();
            if (endpoint == null) {
                endpoint = client.endpoint(url);
                endpoints.put(url, new WeakReference<>(endpoint));
            }
            return endpoint;
        }
    }

    /** Returns the endpoints that a processor uses, or used until the last garbage collection. */
    List<Endpoint> endpoints() {
        synchronized (endpoints) {
            endpoints.values().removeIf(endpoint -> endpoint.get() == null);
            return endpoints.values().stream().map(WeakReference::get).filter(Objects::nonNull).toList();
        }
    }

    /** Closes all connections, because the node is shutting down. */
    void close() {
        client.close();
        endpoints().forEach(endpoint -> endpoint.connections().close());
    }

    @Override
    public XContentBuilder toXContent(XContentBuilder builder, Params params) throws IOException {
        stats.toXContent(builder, params);
        builder.startObject("services");
        for (Endpoint endpoint : endpoints()) {
            builder.startObject(endpoint.url());
            builder.field("breaker", endpoint.breaker().isOpen() ? "open" : "closed");
            builder.field("consecutive_failures", endpoint.breaker().consecutiveFailures());
            builder.endObject();
        }
        return builder.endObject();
    }
}
