// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

import org.opensearch.action.search.TransportSearchAction;
import org.opensearch.cluster.metadata.IndexNameExpressionResolver;
import org.opensearch.cluster.node.DiscoveryNodes;
import org.opensearch.common.settings.ClusterSettings;
import org.opensearch.common.settings.IndexScopedSettings;
import org.opensearch.common.settings.SecureSetting;
import org.opensearch.common.settings.Setting;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.settings.SettingsFilter;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.core.common.settings.SecureString;
import org.opensearch.node.Node;
import org.opensearch.plugins.ActionPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.plugins.ReloadablePlugin;
import org.opensearch.plugins.SearchPipelinePlugin;
import org.opensearch.plugins.SearchPlugin;
import org.opensearch.rest.RestController;
import org.opensearch.rest.RestHandler;
import org.opensearch.search.pipeline.Processor;
import org.opensearch.search.pipeline.SearchRequestProcessor;
import org.opensearch.threadpool.ExecutorBuilder;
import org.opensearch.threadpool.ScalingExecutorBuilder;
import org.opensearch.threadpool.Scheduler;

/** Registers the search request processor {@code resift}, the section {@code ext.resift}, the API key and the counters. */
public class ResiftPlugin extends Plugin implements SearchPipelinePlugin, SearchPlugin, ActionPlugin, ReloadablePlugin {
    static final Setting<SecureString> KEY = SecureSetting.secureString("resift.key", null);

    /** The name of the thread pool for calls to the service. Calls must not block the threads that OpenSearch needs for other tasks. */
    private static final String THREADS = "resift";
    /** The number of concurrent calls. Further calls wait for a thread, which counts towards their timeout. */
    private static final int MAX_CALLS = 64;

    private final String node;
    private final Path config;
    private volatile String key;
    private Rewriting rewriting;

    /**
     * @param settings the node's settings and keystore
     * @param config   the folder of the node's configuration
     */
    public ResiftPlugin(Settings settings, Path config) {
        this.config = config;
        this.node = Node.NODE_NAME_SETTING.get(settings);
        this.key = readKey(settings);
    }

    /**
     * Returns the parts that all processors of this node share. The first call creates them. No lock is needed, because OpenSearch calls this
     * method on a single thread while it starts.
     *
     * @param parameters the parts of the node that processors may use
     */
    Rewriting rewriting(Parameters parameters) {
        if (rewriting == null) {
            RewriteClient client = new RewriteClient(parameters.client.threadPool().executor(THREADS), (delay, task) -> {
                Scheduler.ScheduledCancellable timer = parameters.scheduler.apply(delay, task);
                return timer::cancel;
            }, parameters.namedXContentRegistry);
            ClusterSettings settings = parameters.searchPipelineService.getClusterService().getClusterSettings();
            Supplier<TimeValue> limit = () -> settings.get(TransportSearchAction.SEARCH_CANCEL_AFTER_TIME_INTERVAL_SETTING);
            rewriting = new Rewriting(client, parameters.threadContext, config, () -> key, limit);
        }
        return rewriting;
    }

    @Override
    public Map<String, Processor.Factory<SearchRequestProcessor>> getRequestProcessors(Parameters parameters) {
        return Map.of(RewriteProcessor.TYPE, new RewriteProcessorFactory(rewriting(parameters)));
    }

    @Override
    public List<SearchExtSpec<?>> getSearchExts() {
        return List.of(new SearchExtSpec<>(ResiftExt.NAME, ResiftExt::new, ResiftExt::fromXContent));
    }

    @Override
    public List<Setting<?>> getSettings() {
        return List.of(KEY);
    }

    @Override
    public List<ExecutorBuilder<?>> getExecutorBuilders(Settings settings) {
        return List.of(new ScalingExecutorBuilder(THREADS, 0, MAX_CALLS, TimeValue.timeValueMinutes(1)));
    }

    @Override
    public void close() {
        if (rewriting != null) {
            rewriting.close();
        }
    }

    /** Reads the API key from the keystore again, after {@code POST _nodes/reload_secure_settings}. */
    @Override
    public void reload(Settings settings) {
        key = readKey(settings);
    }

    private static String readKey(Settings settings) {
        try (SecureString secure = KEY.get(settings)) {
            return secure.length() == 0 ? null : secure.toString();
        }
    }

    @Override
    public List<RestHandler> getRestHandlers(
        Settings settings,
        RestController controller,
        ClusterSettings clusterSettings,
        IndexScopedSettings indexScopedSettings,
        SettingsFilter settingsFilter,
        IndexNameExpressionResolver resolver,
        Supplier<DiscoveryNodes> nodes
    ) {
        return List.of(new StatsHandler(node, () -> rewriting));
    }
}
