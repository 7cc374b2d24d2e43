import type { Json, ProviderMetadata } from '../transcript/message.ts';

/** The part of the SDK's `ModelMessage` that Baton writes, assignable to it. The domain imports no library. */
export type ModelMessage = ModelUserMessage | ModelAssistantMessage | ModelToolMessage;

type ModelUserMessage = { role: 'user'; content: ModelUserPart[] };
export type ModelAssistantMessage = { role: 'assistant'; content: ModelAssistantPart[] };
export type ModelToolMessage = { role: 'tool'; content: ModelToolResultPart[] };

export type ModelUserPart = ModelTextPart | ModelFilePart;
export type ModelAssistantPart = ModelTextPart | ModelReasoningPart | ModelToolCallPart | ModelToolResultPart;

type WithOptions = { providerOptions?: ProviderMetadata };

export type ModelTextPart = WithOptions & { type: 'text'; text: string };
export type ModelReasoningPart = WithOptions & { type: 'reasoning'; text: string };
export type ModelFilePart = WithOptions & {
  type: 'file';
  /** Base64, or an http(s) URL that the provider fetches. */
  data: { type: 'data'; data: string } | { type: 'url'; url: URL };
  mediaType: string;
  filename?: string;
};
export type ModelToolCallPart = WithOptions & {
  type: 'tool-call';
  toolCallId: string;
  toolName: string;
  input: Json;
  providerExecuted?: boolean;
};
export type ModelToolResultPart = WithOptions & {
  type: 'tool-result';
  toolCallId: string;
  toolName: string;
  output: ModelToolOutput;
};

export type ModelToolOutput =
  | { type: 'text'; value: string }
  | { type: 'json'; value: Json }
  | { type: 'content'; value: (Omit<ModelTextPart, 'providerOptions'> | Omit<ModelFilePart, 'providerOptions'>)[] }
  | { type: 'error-text'; value: string }
  | { type: 'execution-denied'; reason?: string };
