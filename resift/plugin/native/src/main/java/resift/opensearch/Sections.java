// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.opensearch.common.xcontent.XContentHelper;
import org.opensearch.common.xcontent.json.JsonXContent;
import org.opensearch.core.common.bytes.BytesReference;
import org.opensearch.core.xcontent.MediaTypeRegistry;
import org.opensearch.core.xcontent.ToXContent;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.search.SearchExtBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;

/** Reads the sections in {@code ext} of a search body. */
final class Sections {
    private static final String UBI = "ubi";
    private static final String CLIENT = "client_id";
    /**
     * The sections that the service reads. Other sections are not sent, because some plugins write sections that nobody can read, or raise an
     * exception.
     */
    private static final Set<String> SENT = Set.of(ResiftExt.NAME, UBI, "ml_inference", "mmr");

    private Sections() {}

    /**
     * Returns whether a search belongs to a session: {@code ext.resift.session} or {@code ext.ubi.client_id} is present.
     *
     * @param source the search body, or null if the request has none
     */
    static boolean nameSession(SearchSourceBuilder source) {
        if (source == null) {
            return false;
        }
        for (SearchExtBuilder section : source.ext()) {
            if (section instanceof ResiftExt resift ? resift.hasSession() : hasClient(section)) {
                return true;
            }
        }
        return false;
    }

    /**
     * Returns the keys of {@code ext.resift} if the section has keys, but no key {@code session}, which may be misspelt. Otherwise returns an empty
     * set.
     *
     * @param source the search body, or null if the request has none
     */
    static Set<String> keysWithoutSession(SearchSourceBuilder source) {
        if (source == null) {
            return Set.of();
        }
        for (SearchExtBuilder section : source.ext()) {
            if (section instanceof ResiftExt resift) {
                return resift.keysWithoutSession();
            }
        }
        return Set.of();
    }

    /** Returns whether a search body has a section of this name. */
    static boolean contain(SearchSourceBuilder source, String name) {
        return source.ext().stream().anyMatch(section -> section.getWriteableName().equals(name));
    }

    /** Returns the sections of a search body that are sent to the service. */
    static List<SearchExtBuilder> ofService(SearchSourceBuilder source) {
        return source.ext().stream().filter(section -> SENT.contains(section.getWriteableName())).toList();
    }

    /** Returns the sections of a search body that belong to other plugins. */
    static List<SearchExtBuilder> ofOthers(SearchSourceBuilder source) {
        return source.ext().stream().filter(section -> section instanceof ResiftExt == false).toList();
    }

    /**
     * Returns whether a section belongs to User Behavior Insights (UBI) and contains a client id.
     *
     * <p>The class of the section belongs to the UBI plugin, so only its JSON form is available. In current versions of UBI, this is
     * {@code {"client_id": …}}, without the name of the section.
     */
    private static boolean hasClient(SearchExtBuilder section) {
        if (section.getWriteableName().equals(UBI) == false) {
            return false;
        }
        try (XContentBuilder json = JsonXContent.contentBuilder()) {
            json.startObject();
            section.toXContent(json, ToXContent.EMPTY_PARAMS);
            json.endObject();
            Map<String, Object> fields = XContentHelper.convertToMap(BytesReference.bytes(json), false, MediaTypeRegistry.JSON).v2();
            Object client = fields.get(UBI) instanceof Map<?, ?> nested ? nested.get(CLIENT) : fields.get(CLIENT);
            return client instanceof String id && id.isEmpty() == false;
        } catch (IOException | RuntimeException e) {
            return false; // a section that cannot be written must not break the search
        }
    }
}
