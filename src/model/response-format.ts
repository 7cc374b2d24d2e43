import { type LanguageModel, wrapLanguageModel } from 'ai';
import type { OutputFormat } from '../domain/run/output-format.ts';
import { isStrict } from '../domain/run/output-schema.ts';
import type { ProviderMetadata } from '../domain/transcript/message.ts';
import type { ResolvedModel } from './model-port.ts';

/** The model, asked by the provider's own field for answers that fit the schema. */
export function withResponseFormat(model: LanguageModel, { schema, name }: OutputFormat): LanguageModel {
  if (typeof model === 'string' || model.specificationVersion !== 'v4') return model;
  // Any object: providers have a form of their own for it, and refuse a schema without properties.
  const isAny = Object.keys(schema).every((key) => key === 'type');
  const responseFormat = { type: 'json' as const, ...(!isAny && { schema: { ...schema } }), name: name ?? 'result' };
  return wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: 'v4',
      transformParams: async ({ params }) => ({ ...params, responseFormat }),
    },
  });
}

/** The provider's options beside it. */
export function formatOptions({ protocol, provider }: ResolvedModel, { schema }: OutputFormat): ProviderMetadata {
  const strict = { strictJsonSchema: isStrict(schema) };
  switch (protocol) {
    case 'anthropic-messages':
      // Its package would else ask an unknown model by a tool that it has to call in every step.
      return { anthropic: { structuredOutputMode: 'outputFormat' } };
    case 'openai-compatible':
      return { [provider]: strict };
    default:
      return { openai: strict };
  }
}
