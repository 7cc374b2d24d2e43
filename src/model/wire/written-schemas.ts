import type { LanguageModel } from 'ai';
import { readExactly } from './read-json.ts';

type Model = Extract<LanguageModel, { specificationVersion: 'v4' }>;
type Params = Parameters<Model['doStream']>[0];

const WRITTEN = 'baton/schema';
const IN_BODY = /\{"type":"object","baton\/schema":"((?:[^"\\]|\\.)*)"[^{}]*\}/g;

/**
 * The request with each schema as text whose keys would not keep their order: OpenAI's package copies schemas, and a
 * copied object has keys like `"7"` first. `writeSchemas` puts them back in the body.
 */
export function withSchemasAsText<Request extends Pick<Params, 'tools' | 'responseFormat'>>(params: Request): Request {
  const { tools, responseFormat } = params;
  return {
    ...params,
    ...(tools !== undefined && {
      tools: tools.map((tool) =>
        tool.type === 'function' ? { ...tool, inputSchema: asText(tool.inputSchema) } : tool,
      ),
    }),
    ...(responseFormat?.type === 'json' &&
      responseFormat.schema !== undefined && {
        responseFormat: { ...responseFormat, schema: asText(responseFormat.schema) },
      }),
  };
}

function asText<Schema extends object>(schema: Schema): Schema {
  const text = JSON.stringify(schema);
  return /"\d+":/.test(text) && JSON.stringify(readExactly(text)) !== text
    ? ({ type: 'object', [WRITTEN]: text } as unknown as Schema)
    : schema;
}

/** The quotes of a text are escaped, so that only the schemas match. */
export const writeSchemas = (body: string): string =>
  body.includes(`"${WRITTEN}":`) ? body.replaceAll(IN_BODY, (_, text: string) => JSON.parse(`"${text}"`)) : body;
