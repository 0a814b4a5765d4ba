/** Reading the parts of an OpenAPI 3.1 document that a reader wants to see. */

export interface Schema {
  $ref?: string;
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  format?: string;
  pattern?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  additionalProperties?: boolean | Schema;
  example?: unknown;
  examples?: unknown[];
}

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
}

interface Media {
  schema?: Schema;
  example?: unknown;
  examples?: Record<string, { value?: unknown }>;
}

export interface Body {
  description?: string;
  required?: boolean;
  content?: Record<string, Media>;
}

export interface Operation {
  summary?: string;
  description?: string;
  parameters?: Parameter[];
  requestBody?: Body;
  responses?: Record<string, Body>;
  security?: Record<string, string[]>[];
}

type Reference = { $ref?: string };

export interface OpenApi {
  info: { title: string; version: string };
  paths: Record<string, Record<string, Operation>>;
  security?: Record<string, string[]>[];
  components?: Record<string, Record<string, unknown>>;
}

export interface Endpoint {
  method: string;
  path: string;
  operation: Operation;
}

const METHODS = ["get", "post", "put", "patch", "delete"];
const DEEPEST = 6;

/** List the operations in the document's order. */
export function endpoints(api: OpenApi): Endpoint[] {
  return Object.entries(api.paths).flatMap(([path, operations]) =>
    METHODS.filter((method) => method in operations).map((method) => ({
      method,
      path,
      operation: operations[method] ?? {},
    })),
  );
}

/** Follow a reference into the document's own components; any other is left as it is. */
export function resolved<T extends object>(api: OpenApi, value: T & Reference): T {
  const path = value.$ref?.match(/^#\/components\/(\w+)\/([\w.-]+)$/);
  if (path === null || path === undefined) return value;
  return (api.components?.[path[1] ?? ""]?.[path[2] ?? ""] ?? {}) as T;
}

/** Which tokens an operation takes, in the document's words; none means anybody may ask. */
export function tokens(api: OpenApi, operation: Operation): string[] {
  const names = new Set((operation.security ?? api.security ?? []).flatMap((one) => Object.keys(one)));
  const schemes = (api.components?.securitySchemes ?? {}) as Record<string, { description?: string }>;
  return [...names].map((name) => schemes[name]?.description ?? name);
}

/** Sketch a schema as the JSON it describes, types in place of values. */
export function sketch(api: OpenApi, given: Schema, depth = 0): unknown {
  const schema = resolved<Schema>(api, given);
  if (depth > DEEPEST) return "…";
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return choice(api, choices, depth);
  if (schema.allOf !== undefined) return Object.assign({}, ...schema.allOf.map((one) => sketch(api, one, depth)));
  if (schema.properties !== undefined) {
    return Object.fromEntries(
      Object.entries(schema.properties).map(([name, one]) => [name, sketch(api, one, depth + 1)]),
    );
  }
  if (schema.items !== undefined) return [sketch(api, schema.items, depth + 1)];
  if (typeof schema.additionalProperties === "object")
    return { "…": sketch(api, schema.additionalProperties, depth + 1) };
  return inWords(schema);
}

/** Say a simple type with its limits. */
export function inWords(schema: Schema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "any");
  const shape =
    schema.pattern !== undefined ? `, ${schema.pattern}` : schema.format !== undefined ? `, ${schema.format}` : "";
  const usual =
    schema.default === undefined || schema.default === null ? "" : `, default ${JSON.stringify(schema.default)}`;
  return `${type}${limits(schema)}${shape}${usual}`;
}

/** Write a sketch down like JSON, with types unquoted. */
export function written(sketched: unknown, indent = ""): string {
  const deeper = `${indent}  `;
  if (Array.isArray(sketched)) return `[${written(sketched[0], indent)}, …]`;
  if (typeof sketched !== "object" || sketched === null) return String(sketched);
  const fields = Object.entries(sketched).map(
    ([name, one]) => `${deeper}${JSON.stringify(name)}: ${written(one, deeper)}`,
  );
  return fields.length === 0 ? "{}" : `{\n${fields.join(",\n")}\n${indent}}`;
}

/** An example of a schema; text that only the reader can know is its name in capitals. */
export function example(api: OpenApi, given: Schema, name: string, depth = 0): unknown {
  const schema = resolved<Schema>(api, given);
  const known = schema.example ?? schema.examples?.[0] ?? schema.default ?? schema.const ?? schema.enum?.[0];
  if (known !== undefined && known !== null) return known;
  if (depth > DEEPEST) return null;
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices?.[0] !== undefined) return example(api, choices[0], name, depth);
  if (schema.properties !== undefined) {
    const fields = Object.entries(schema.properties);
    return Object.fromEntries(fields.map(([field, one]) => [field, example(api, one, field, depth + 1)]));
  }
  if (schema.type === "array") return schema.items === undefined ? [] : [example(api, schema.items, name, depth + 1)];
  if (schema.type === "integer" || schema.type === "number") return schema.minimum ?? 1;
  if (schema.type === "boolean") return true;
  return schema.type === "object" ? {} : name.toUpperCase();
}

function limits(schema: Schema): string {
  const least = schema.minimum ?? schema.minLength ?? schema.minItems;
  const most = schema.maximum ?? schema.maxLength ?? schema.maxItems;
  const unit = schema.type === "string" ? " characters" : "";
  if (least === undefined) return most === undefined ? "" : `, at most ${most}${unit}`;
  return most === undefined ? `, at least ${least}${unit}` : `, ${least} to ${most}${unit}`;
}

function choice(api: OpenApi, choices: Schema[], depth: number): unknown {
  const parts = choices.map((one) => sketch(api, one, depth));
  const whole = parts.find((part) => typeof part === "object");
  return whole ?? parts.join(" or ");
}
