import type { LanguageModel } from 'ai';
import { PRUNING_REQUEST_MARK, SUMMARY_REQUEST_MARK } from '../domain/context/compaction/summary-marks.ts';
import { BatonError } from '../domain/errors.ts';
import type { Part } from '../domain/transcript/message.ts';
import { NO_USAGE } from '../domain/usage.ts';
import type { ModelPort, ResolvedModel } from '../model/model-port.ts';
import { asWritten } from '../model/wire/written-input.ts';
import type { CaseStep } from './case-file.ts';
import type { Player } from './player.ts';

type SdkModel = Extract<LanguageModel, { specificationVersion: 'v4' }>;
type CallOptions = Parameters<SdkModel['doStream']>[0];
type Streamed = Awaited<ReturnType<SdkModel['doStream']>>;
type StreamPart = Streamed['stream'] extends ReadableStream<infer Chunk> ? Chunk : never;

/** Key of the provider options by which a request carries the id of its session. No provider reads it. */
const OWN_OPTIONS = 'batonCase';

/**
 * Replaces the answers of models by those of cases. The rest stays as with the real model, whose protocol decides how a
 * request is shown to it. A model whose provider is not configured counts as one of compatible chat completions.
 * @param playerOf the player of a session by its UUID
 * @param liveModel the model that may answer itself; its provider has to be configured
 */
export function recordedModels(
  models: ModelPort,
  playerOf: (sessionId: string) => Player,
  liveModel: string | undefined,
): ModelPort {
  return (name) => {
    const { askServed: _network, ...resolved } = name === liveModel ? models(name) : resolvedOr(models, name);
    return {
      ...resolved,
      model: createRecordedModel(resolved, playerOf),
      providerOptions: (sessionId) => ({ ...resolved.providerOptions(sessionId), [OWN_OPTIONS]: { sessionId } }),
    };
  };
}

function resolvedOr(models: ModelPort, name: string): ResolvedModel {
  try {
    return models(name);
  } catch (error) {
    if (!(error instanceof BatonError)) throw error;
    const slash = name.indexOf('/');
    return {
      model: name,
      provider: name.slice(0, slash),
      modelId: name.slice(slash + 1),
      protocol: 'openai-compatible',
      endpoint: 'recorded',
      credential: 'recorded',
      providerTools: false,
      providerOptions: () => ({}),
    };
  }
}

function createRecordedModel(
  { provider, modelId, model }: Pick<ResolvedModel, 'provider' | 'modelId' | 'model'>,
  playerOf: (sessionId: string) => Player,
): SdkModel {
  return {
    specificationVersion: 'v4',
    provider,
    modelId,
    supportedUrls: {},
    doGenerate: () => Promise.reject(new BatonError('internal', 'a recorded model only streams')),
    async doStream(options) {
      const player = playerOf(String(options.providerOptions?.[OWN_OPTIONS]?.['sessionId']));
      const isSummary = isSummaryRequest(options);
      if (isSummary && player.isLive()) return streamLive(model, options);
      if (isSummary) return streamOf([...textParts(player.summary() ?? '', 'summary'), ...ended()]);
      const step = await player.answer();
      if (step === 'live') return streamLive(model, options);
      return streamOf(step === null ? [...textParts(CASE_ENDS, 'end'), ...ended()] : answerParts(step));
    },
  };
}

async function streamLive(model: LanguageModel, options: CallOptions): Promise<Streamed> {
  if (typeof model !== 'string' && model.specificationVersion === 'v4') return model.doStream(options);
  throw new BatonError('model_unavailable', 'this model cannot answer itself');
}

const CASE_ENDS = 'The recorded case ends here.';

function isSummaryRequest({ prompt }: CallOptions): boolean {
  const last = prompt.findLast(({ role }) => role === 'user');
  const text = JSON.stringify(last?.content ?? '');
  return text.includes(SUMMARY_REQUEST_MARK) || text.includes(PRUNING_REQUEST_MARK);
}

function streamOf(parts: readonly StreamPart[]): Streamed {
  return {
    stream: new ReadableStream<StreamPart>({
      start(controller) {
        controller.enqueue({ type: 'stream-start', warnings: [] });
        for (const part of parts) controller.enqueue(part);
        controller.close();
      },
    }),
  };
}

const answerParts = (step: CaseStep): StreamPart[] => [
  ...step.parts.flatMap((part, index) => toStreamParts(part, String(index))),
  ...ended(step),
];

type Ended = Pick<CaseStep, 'usage' | 'finishReason'>;

function ended({ usage, finishReason }: Ended = { usage: NO_USAGE, finishReason: 'stop' }): StreamPart[] {
  const { inputTokens, outputTokens, reasoningTokens, cacheReadTokens, cacheWriteTokens } = usage;
  const unified = finishReason === 'aborted' ? 'other' : finishReason;
  return [
    {
      type: 'finish',
      finishReason: { unified, raw: finishReason },
      usage: {
        inputTokens: {
          total: inputTokens,
          noCache: Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens),
          cacheRead: cacheReadTokens,
          cacheWrite: cacheWriteTokens,
        },
        outputTokens: {
          total: outputTokens,
          text: Math.max(0, outputTokens - reasoningTokens),
          reasoning: reasoningTokens,
        },
      },
    },
  ];
}

function textParts(text: string, id: string): StreamPart[] {
  return [
    { type: 'text-start', id },
    { type: 'text-delta', id, delta: text },
    { type: 'text-end', id },
  ];
}

function toStreamParts(part: Part, id: string): StreamPart[] {
  switch (part.type) {
    case 'text':
    case 'reasoning': {
      const own = metadataOf(part);
      return [
        { type: `${part.type}-start`, id, ...own },
        ...(part.text === '' ? [] : [{ type: `${part.type}-delta`, id, delta: part.text } as const]),
        { type: `${part.type}-end`, id, ...own },
      ];
    }
    case 'tool':
      return callParts(part);
    case 'source':
      return [sourcePart(part)];
    case 'file':
      return [filePart(part)];
    default:
      return [];
  }
}

function metadataOf({ providerMetadata }: Pick<Extract<Part, { type: 'text' }>, 'providerMetadata'>) {
  return providerMetadata === undefined ? {} : { providerMetadata };
}

function callParts(part: Extract<Part, { type: 'tool' }>): StreamPart[] {
  const { toolCallId, toolName, input, output, providerExecuted, resultProviderMetadata } = part;
  // An input that was no JSON is kept as its text.
  const text = typeof input === 'string' ? input : JSON.stringify(input);
  const call: StreamPart = {
    type: 'tool-call',
    toolCallId,
    toolName,
    input: providerExecuted === true ? text : asWritten(text),
    ...(providerExecuted === true && { providerExecuted }),
    ...metadataOf(part),
  };
  if (providerExecuted !== true || output === undefined || output.type === 'execution-denied') return [call];
  const result: StreamPart = {
    type: 'tool-result',
    toolCallId,
    toolName,
    result: JSON.parse(JSON.stringify(output.value)) ?? '',
    ...(part.state === 'error' && { isError: true }),
    ...metadataOf({ providerMetadata: resultProviderMetadata }),
  };
  return [call, result];
}

function sourcePart(part: Extract<Part, { type: 'source' }>): StreamPart {
  const { sourceId: id, url, title, mediaType = 'text/plain', filename } = part;
  if (url !== undefined) {
    return { type: 'source', sourceType: 'url', id, url, ...(title !== undefined && { title }), ...metadataOf(part) };
  }
  const named = { ...(filename !== undefined && { filename }), ...metadataOf(part) };
  return { type: 'source', sourceType: 'document', id, mediaType, title: title ?? '', ...named };
}

function filePart(part: Extract<Part, { type: 'file' }>): StreamPart {
  const { mediaType, url } = part;
  const data = url.startsWith('data:')
    ? ({ type: 'data', data: url.slice(url.indexOf(',') + 1) } as const)
    : ({ type: 'url', url: new URL(url) } as const);
  return { type: 'file', mediaType, data, ...metadataOf(part) };
}
