// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;

import org.opensearch.common.settings.ClusterSettings;
import org.opensearch.common.settings.Setting;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.search.pipeline.SearchRequestProcessor;
import org.opensearch.search.pipeline.SystemGeneratedProcessor;

/** The plugin for OpenSearch 3.3 and later. It can also rewrite searches in a session that use no search pipeline. */
public final class SystemGeneratedPlugin extends ResiftPlugin {
    static final Setting<List<String>> URL = Setting.listSetting(
        "resift.url",
        List.of(),
        Function.identity(),
        urls -> urls.forEach(Endpoint::uri),
        Setting.Property.Dynamic,
        Setting.Property.NodeScope
    );
    static final Setting<TimeValue> TIMEOUT = Setting.timeSetting(
        "resift.timeout",
        TimeValue.parseTimeValue(Rewriting.DEFAULT_TIMEOUT, "resift.timeout"),
        TimeValue.timeValueMillis(1),
        Setting.Property.Dynamic,
        Setting.Property.NodeScope
    );

    /**
     * @param settings the node's settings and keystore
     * @param config   the folder of the node's configuration
     */
    public SystemGeneratedPlugin(Settings settings, Path config) {
        super(settings, config);
    }

    @Override
    public List<Setting<?>> getSettings() {
        return Stream.concat(super.getSettings().stream(), Stream.of(URL, TIMEOUT)).toList();
    }

    @Override
    public Map<String, SystemGeneratedProcessor.SystemGeneratedFactory<SearchRequestProcessor>> getSystemGeneratedRequestProcessors(
        Parameters parameters
    ) {
        SystemGeneratedFactory factory = new SystemGeneratedFactory(rewriting(parameters));
        ClusterSettings settings = parameters.searchPipelineService.getClusterService().getClusterSettings();
        settings.addSettingsUpdateConsumer(URL, TIMEOUT, factory::configure);
        factory.configure(settings.get(URL), settings.get(TIMEOUT));
        return Map.of(RewriteProcessor.TYPE, factory);
    }
}
