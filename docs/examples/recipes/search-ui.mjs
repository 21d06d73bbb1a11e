// Search UI over an attached index, in a session: node search-ui.mjs INDEX QUERY SESSION
// npm install @elastic/search-ui-elasticsearch-connector
import ElasticsearchAPIConnector from "@elastic/search-ui-elasticsearch-connector";

const [index, query, session] = process.argv.slice(2);

/** Name the session in each search, and the search pipeline that reads it. */
const interceptSearchRequest = ({ requestBody, requestState }, next) => next({
  ...requestBody,
  search_pipeline: `resift-${index}`,
  ext: { resift: { query: requestState.searchTerm, session } },
});

const host = process.env.OPENSEARCH_URL ?? "http://127.0.0.1:9200";
const apiConnector = new ElasticsearchAPIConnector({ host, index, interceptSearchRequest }); // a page passes it on: <SearchProvider config={{ apiConnector, … }}>
const state = { searchTerm: query, current: 1, resultsPerPage: 10 };
const { results } = await apiConnector.onSearch(state, { search_fields: { title: {} }, result_fields: { title: { raw: {} } } });
console.log(results.map((result) => result.id.raw).join(" "));
