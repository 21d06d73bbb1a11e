// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.util.List;
import java.util.Map;

import org.opensearch.common.unit.TimeValue;
import org.opensearch.ingest.ConfigurationUtils;
import org.opensearch.search.pipeline.Processor;
import org.opensearch.search.pipeline.SearchRequestProcessor;

/** Creates the processors of the type {@code resift} in search pipelines that the cluster stores. */
final class RewriteProcessorFactory implements Processor.Factory<SearchRequestProcessor> {
    private static final String TYPE = RewriteProcessor.TYPE;

    private final Rewriting rewriting;

    /**
     * @param rewriting the parts that all processors of this node share
     */
    RewriteProcessorFactory(Rewriting rewriting) {
        this.rewriting = rewriting;
    }

    @Override
    public SearchRequestProcessor create(
        Map<String, Processor.Factory<SearchRequestProcessor>> factories,
        String tag,
        String description,
        boolean ignoreFailure,
        Map<String, Object> config,
        Processor.PipelineContext context
    ) {
        if (context.getPipelineSource() == Processor.PipelineSource.SEARCH_REQUEST) {
            // Otherwise, everybody who may search could send the API key to any address.
            throw ConfigurationUtils.newConfigurationException(TYPE, tag, null, "this processor is not allowed in a search body: use a named pipeline");
        }
        List<String> urls = urls(tag, config);
        String timeout = ConfigurationUtils.readStringProperty(TYPE, tag, config, "timeout", Rewriting.DEFAULT_TIMEOUT);
        String keyFile = ConfigurationUtils.readOptionalStringProperty(TYPE, tag, config, "key_file");
        try {
            Service service = rewriting.service(urls, millis(timeout), keyFile);
            return new RewriteProcessor(tag, description, ignoreFailure, rewriting, service);
        } catch (IllegalArgumentException e) {
            throw ConfigurationUtils.newConfigurationException(TYPE, tag, null, e.getMessage());
        }
    }

    /** Reads the URLs, a string or a list of strings. */
    private static List<String> urls(String tag, Map<String, Object> config) {
        Object value = ConfigurationUtils.readObject(TYPE, tag, config, "url");
        List<?> urls = value instanceof List<?> list ? list : List.of(value);
        if (urls.isEmpty() || urls.stream().allMatch(String.class::isInstance) == false) {
            throw ConfigurationUtils.newConfigurationException(TYPE, tag, "url", "must be a URL, or a list of URLs");
        }
        return urls.stream().map(String.class::cast).toList();
    }

    private static long millis(String timeout) {
        long millis = TimeValue.parseTimeValue(timeout, "timeout").millis();
        if (millis < 1) {
            throw new IllegalArgumentException("[timeout] must be at least 1ms, but is [" + timeout + "]");
        }
        return millis;
    }
}
