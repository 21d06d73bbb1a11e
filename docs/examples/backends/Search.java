// A hybrid search of a backend, in a session: java -cp ... Search.java QUERY SESSION [PIPELINE]
// With org.opensearch.client:opensearch-java and org.apache.httpcomponents.client5:httpclient5 in the class path.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.hc.core5.http.HttpHost;
import org.opensearch.client.opensearch.generic.Bodies;
import org.opensearch.client.opensearch.generic.OpenSearchGenericClient;
import org.opensearch.client.opensearch.generic.Requests;
import org.opensearch.client.transport.httpclient5.ApacheHttpClient5TransportBuilder;

public class Search {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HttpClient HTTP = HttpClient.newHttpClient();

    static String variable(String name, String otherwise) {
        return System.getenv().getOrDefault(name, otherwise);
    }

    /** Return the search body, rewritten by the session. If the service fails or is slow, return the body unchanged. */
    static Map<String, Object> rewrite(String index, Map<String, Object> body, String session) {
        try {
            var asked = new java.util.HashMap<>(body);
            asked.put("ext", Map.of("resift", Map.of("session", session)));
            var request = HttpRequest.newBuilder(URI.create(variable("RESIFT_URL", "http://127.0.0.1:8080") + "/v1/rewrite"))
                .timeout(Duration.ofSeconds(1))
                .header("Content-Type", "application/json")
                .header("Authorization", "Bearer " + variable("RESIFT_API_KEY", "none"))
                .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(Map.of("index", index, "body", asked))))
                .build();
            var answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) return body;
            @SuppressWarnings("unchecked")
            var rewritten = (Map<String, Object>) JSON.readValue(answer.body(), Map.class).get("body");
            return rewritten;
        } catch (Exception away) {
            return body;
        }
    }

    public static void main(String[] arguments) throws Exception {
        String query = arguments[0], session = arguments[1];
        Map<String, Object> body = Map.of(
            "query", Map.of("hybrid", Map.of("queries", List.of(
                Map.of("match", Map.of("text", query)), Map.of("term", Map.of("section", "news"))))),
            "size", 5);
        body = rewrite("papers", body, session); // the only line to add
        var node = HttpHost.create(URI.create(variable("OPENSEARCH_URL", "http://127.0.0.1:9200")));
        try (var transport = ApacheHttpClient5TransportBuilder.builder(node).build()) {
            var client = new OpenSearchGenericClient(transport);
            var path = "/papers/_search" + (arguments.length > 2 ? "?search_pipeline=" + arguments[2] : "");
            var search = Requests.builder().endpoint(path).method("POST").body(Bodies.json(JSON.writeValueAsString(body))).build();
            try (var answer = client.execute(search)) {
                var hits = JSON.readTree(answer.getBody().get().bodyAsString()).at("/hits/hits");
                var ids = new java.util.ArrayList<String>();
                hits.forEach(hit -> ids.add(hit.get("_id").asText()));
                System.out.println(ids.stream().collect(Collectors.joining(" ")));
            }
        }
    }
}
