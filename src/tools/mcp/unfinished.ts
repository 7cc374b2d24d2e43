import { z } from 'zod';
import { readReply } from '../../domain/run/call-reply.ts';
import {
  type CallQuestion,
  MAX_QUESTION_BYTES,
  MAX_QUESTION_CHARS,
  MAX_QUESTION_ITEMS,
  type QuestionItem,
} from '../../domain/transcript/call-question.ts';
import { type Json, jsonObjectSchema } from '../../domain/transcript/message.ts';
import type { ToolReply } from '../input-needed.ts';

/**
 * An answer of 2026-07-28 that is not the end of the call: the server wants it again, with its state and with what it
 * asks for. https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
 */
export type Unfinished = Readonly<{ requests: InputRequests; requestState: string | undefined }>;
/** What a server asks for, by the keys under which it wants the responses. */
export type InputRequests = Readonly<Record<string, unknown>>;

const unfinishedSchema = z.looseObject({
  resultType: z.literal('input_required'),
  inputRequests: z.record(z.string(), z.unknown()).nullish(),
  requestState: z.string().nullish(),
});
const requestSchema = z.looseObject({
  method: z.string(),
  params: z.looseObject({ message: z.string().optional().catch(undefined) }).nullish(),
});
const elicitationSchema = z.looseObject({
  method: z.literal('elicitation/create'),
  params: z.looseObject({
    mode: z.enum(['form', 'url']).default('form'),
    message: z.string().default(''),
    requestedSchema: jsonObjectSchema.optional(),
    // People open it: no other scheme may run in their browser.
    url: z.url({ protocol: /^https?$/ }).optional(),
  }),
});

/** Null: the answer is the end of the call. Pure. */
export function readUnfinished(answer: unknown): Unfinished | null {
  const { data } = unfinishedSchema.safeParse(answer);
  // With neither the one nor the other there is nothing to go on with.
  if (data === undefined || (isEmpty(data.inputRequests ?? {}) && typeof data.requestState !== 'string')) return null;
  return { requests: data.inputRequests ?? {}, requestState: data.requestState ?? undefined };
}

export const isEmpty = (requests: InputRequests): boolean => Object.keys(requests).length === 0;

/** With what a call goes on once a person has answered: of a task by its id, of any other call by the server's state. */
export type Continuation = Readonly<{ taskId: string } | { requestState?: string | undefined }>;

/**
 * The question for a person. Null: the server asks for something else than an answer of a person, or for more than can be
 * kept. Pure.
 */
export function toQuestion(requests: InputRequests, state: Continuation): CallQuestion | null {
  const entries = Object.entries(requests);
  const items = entries.flatMap(([key, request]): QuestionItem[] => {
    const { data } = elicitationSchema.safeParse(request);
    if (data === undefined) return [];
    const { mode, requestedSchema: schema, url } = data.params;
    const message = data.params.message.slice(0, MAX_QUESTION_CHARS);
    if (mode === 'url') return url === undefined ? [] : [{ key, message, url }];
    return [{ key, message, ...(schema !== undefined && { schema }) }];
  });
  const isWhole = items.length === entries.length && items.length > 0 && items.length <= MAX_QUESTION_ITEMS;
  const question = { items, state: { ...state } as Json };
  return isWhole && Buffer.byteLength(JSON.stringify(question)) <= MAX_QUESTION_BYTES ? question : null;
}

const stateSchema = z.looseObject({ taskId: z.string().optional(), requestState: z.string().optional() });

/** What a server is sent after an answer. `taskId`: set if the call is a task. */
export type Resumption = Readonly<{
  taskId: string | undefined;
  requestState: string | undefined;
  inputResponses: Readonly<Record<string, Json>>;
}>;

/** Pure. */
export function toResumption({ question, answer }: ToolReply): Resumption {
  const { taskId, requestState } = stateSchema.safeParse(question.state).data ?? {};
  const reply = answer.kind === 'output' ? readReply(question, answer.output) : null;
  const responseTo = ({ key, url }: QuestionItem): Json => {
    if (reply === null || 'problem' in reply) return { action: answer.kind === 'deny' ? 'decline' : 'cancel' };
    return url === undefined ? { action: 'accept', content: reply.contents[key] ?? {} } : { action: 'accept' };
  };
  const inputResponses = Object.fromEntries(question.items.map((item) => [item.key, responseTo(item)]));
  return { taskId, requestState, inputResponses };
}

/** For the model, where the server asks for what no person is asked for. Pure. */
export function wordsOfRequests(requests: InputRequests): string {
  const each = Object.values(requests).map((request) => {
    const { method, params } = requestSchema.safeParse(request).data ?? { method: 'something unknown', params: null };
    const message = (params?.message ?? '').slice(0, MAX_QUESTION_CHARS);
    return message === '' ? method : `${method}: ${JSON.stringify(message)}`;
  });
  return (
    `The tool asks for more before it goes on, which Baton cannot give it (${each.join('; ')}). ` +
    'If the tool takes it as an argument, call it again with that; otherwise ask the user.'
  );
}
