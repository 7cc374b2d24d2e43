import { z } from 'zod';

/**
 * An answer of 2026-07-28 that is not the end of the call: the server wants it again, with its state and with what it
 * asks for. https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
 */
export type Unfinished = Readonly<{ questions: readonly Asked[]; requestState: string | undefined }>;
export type Asked = Readonly<{ method: string; message: string }>;

const unfinishedSchema = z.looseObject({
  resultType: z.literal('input_required'),
  inputRequests: z.record(z.string(), z.unknown()).nullish(),
  requestState: z.string().nullish(),
});
const askedSchema = z.looseObject({
  method: z.string(),
  params: z.looseObject({ message: z.string().optional() }).nullish(),
});
const MAX_MESSAGE_CHARS = 2_000;

/** Null: the answer is the end of the call. Pure. */
export function readUnfinished(answer: unknown): Unfinished | null {
  const { data } = unfinishedSchema.safeParse(answer);
  // With neither the one nor the other there is nothing to go on with.
  if (data === undefined || (isEmpty(data.inputRequests) && typeof data.requestState !== 'string')) return null;
  return { questions: readAsked(data.inputRequests ?? {}), requestState: data.requestState ?? undefined };
}

/** What a server asks for. Pure. */
export function readAsked(inputRequests: Readonly<Record<string, unknown>>): Asked[] {
  return Object.values(inputRequests).map((request): Asked => {
    const { method, params } = askedSchema.safeParse(request).data ?? { method: 'something unknown', params: null };
    return { method, message: (params?.message ?? '').slice(0, MAX_MESSAGE_CHARS) };
  });
}

const isEmpty = (requests: object | null | undefined): boolean => Object.keys(requests ?? {}).length === 0;

/** For the model: Baton declares none of these abilities, so a server that keeps to the protocol does not ask. Pure. */
export function wordsOfAsked(questions: readonly Asked[]): string {
  const each = questions.map(({ method, message }) =>
    message === '' ? method : `${method}: ${JSON.stringify(message)}`,
  );
  return (
    `The tool asks for more before it goes on, which Baton cannot give it (${each.join('; ')}). ` +
    'If the tool takes it as an argument, call it again with that; otherwise ask the user.'
  );
}
