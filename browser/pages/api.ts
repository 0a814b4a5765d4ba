/** The API page: the service's own OpenAPI document, laid out for reading. */

import { byId, element, facts, fill, say, table } from "./parts/dom.ts";
import {
  endpoints,
  example,
  inWords as typeInWords,
  resolved,
  sketch,
  tokens,
  written,
  type Body,
  type Endpoint,
  type OpenApi,
  type Parameter,
} from "./parts/openapi.ts";
import { askJson, inWords } from "./parts/service.ts";

// What the framework writes where no description was given.
const NOTHING_SAID = "Successful Response";

class Reference {
  constructor(private readonly api: OpenApi) {}

  contents(): HTMLElement {
    const links = endpoints(this.api).map((endpoint) =>
      element("li", {}, method(endpoint), " ", element("a", { href: `#${anchor(endpoint)}` }, endpoint.path)),
    );
    const { title, version } = this.api.info;
    return element("div", {}, element("h2", {}, `${title} ${version}`), element("ul", { class: "contents" }, ...links));
  }

  sections(): HTMLElement[] {
    return endpoints(this.api).map((endpoint) => this.section(endpoint));
  }

  private section(endpoint: Endpoint): HTMLElement {
    const { operation } = endpoint;
    const heading = element("h2", {}, method(endpoint), " ", element("code", {}, endpoint.path));
    return element(
      "section",
      { class: "panel operation", id: anchor(endpoint), "data-testid": "operation" },
      heading,
      element("p", {}, operation.description ?? operation.summary ?? ""),
      facts([["Token", tokens(this.api, operation).join(" or ") || "none"]]),
      this.parameters(operation.parameters ?? []),
      operation.requestBody === undefined ? null : this.body("Body", resolved<Body>(this.api, operation.requestBody)),
      ...this.answers(operation.responses ?? {}),
      element("h3", {}, "Example"),
      element("pre", { class: "log", tabindex: 0 }, this.curl(endpoint)),
    );
  }

  private parameters(given: Parameter[]): HTMLElement | null {
    const found = given.map((one) => resolved<Parameter>(this.api, one));
    if (found.length === 0) return null;
    const rows = found.map((one) => [
      element("code", {}, one.name),
      `${one.in}${one.required === true ? ", required" : ""}`,
      one.schema === undefined ? "" : this.type(one),
      one.description ?? "",
    ]);
    const shown = table("Parameters", ["name", "in", "type", "meaning"], rows);
    return element("div", {}, element("h3", {}, "Parameters"), shown);
  }

  private type({ schema = {} }: Parameter): string {
    const found = sketch(this.api, schema);
    return typeof found === "string" ? found : typeInWords(schema);
  }

  private answers(responses: Record<string, Body>): HTMLElement[] {
    const all = Object.entries(responses).map(([status, one]) => [status, resolved<Body>(this.api, one)] as const);
    const good = all.filter(([status]) => status < "4").map(([status, one]) => this.body(`Answer ${status}`, one));
    const bad = all.filter(([status]) => status >= "4");
    if (bad.length === 0) return good;
    const list = table(
      "Errors",
      ["status", "when"],
      bad.map(([status, one]) => [status, one.description ?? ""]),
    );
    return [...good, element("details", {}, element("summary", {}, `Errors (${bad.length})`), list)];
  }

  private body(title: string, { description, content = {} }: Body): HTMLElement {
    const forms = Object.entries(content).flatMap(([type, { schema }]) => [
      element("p", {}, element("code", {}, type)),
      ...(schema === undefined || !type.includes("json") ? [] : [this.drawn(schema)]),
    ]);
    return element(
      "div",
      {},
      element("h3", {}, title),
      description === undefined || description === NOTHING_SAID ? null : element("p", { class: "quiet" }, description),
      ...forms,
    );
  }

  private drawn(schema: object): HTMLElement {
    return element("pre", { class: "log", tabindex: 0 }, written(sketch(this.api, schema)));
  }

  private curl({ method: verb, path, operation }: Endpoint): string {
    const found = (operation.parameters ?? []).map((one) => resolved<Parameter>(this.api, one));
    const value = (one: Parameter) => encodeURIComponent(String(example(this.api, one.schema ?? {}, one.name)));
    const filled = path.replace(/\{(\w+)\}/g, (whole, name: string) => {
      const parameter = found.find((one) => one.name === name);
      return parameter === undefined ? whole : value(parameter);
    });
    const telling = found.filter(
      (one) => one.in === "query" && (one.required === true || one.schema?.default !== undefined),
    );
    const query = telling.map((one) => `${one.name}=${value(one)}`).join("&");
    const address = `'${location.origin}${filled}${query === "" ? "" : `?${query}`}'`;
    const lines = [verb === "get" ? `curl ${address}` : `curl -X ${verb.toUpperCase()} ${address}`];
    if (tokens(this.api, operation).length > 0) lines.push(`-H "Authorization: Bearer $TOKEN"`);
    return [...lines, ...this.curlBody(operation.requestBody)].join(" \\\n  ");
  }

  private curlBody(given: Body | undefined): string[] {
    if (given === undefined) return [];
    const form = Object.entries(resolved<Body>(this.api, given).content ?? {}).find(([type]) => type.includes("json"));
    if (form === undefined) return ["--data-binary @FILE"];
    const [type, { schema = {}, example: shown, examples = {} }] = form;
    const sample = shown ?? Object.values(examples)[0]?.value ?? example(this.api, schema, "body");
    return [`-H 'Content-Type: ${type}'`, `-d '${JSON.stringify(sample).replaceAll("'", "'\\''")}'`];
  }
}

function method({ method: verb }: Endpoint): HTMLElement {
  return element("span", { class: `method ${verb}` }, verb.toUpperCase());
}

function anchor({ method: verb, path }: Endpoint): string {
  return `${verb}${path.replace(/[^a-z0-9]+/gi, "-")}`;
}

async function start(): Promise<void> {
  try {
    const reference = new Reference(await askJson<OpenApi>("/openapi.json"));
    fill(byId("contents"), reference.contents());
    fill(byId("operations"), ...reference.sections());
  } catch (error) {
    say(byId("notice"), inWords(error), "bad");
  } finally {
    document.body.dataset.ready = "yes";
  }
}

void start();
