import type { ScriptedFinishReason } from './reply.ts';
import type { Protocol } from './request.ts';
import type { ViolationClass } from './violation.ts';

/** A refusal for the form of a request, in the words of its endpoint. `rule`: what was broken. */
export type FormRefusal = Readonly<{ rule: string; status: number; body: unknown }>;

export type Profile = Readonly<{
  protocol: Protocol;
  /** The first rule that a request breaks. Undefined: it is taken. */
  refuses: (body: unknown) => FormRefusal | undefined;
}> &
  Ways;

/** How an endpoint differs from the protocol's author, beside its refusals. */
export type Ways = Readonly<{
  /** Violations of the protocol that the endpoint takes. */
  takes?: readonly ViolationClass[];
  finishWords?: Partial<Record<ScriptedFinishReason, string>>;
  /** The id of a call by its name and its number in the conversation. */
  callId?: (name: string, no: number) => string;
  /** It refuses the field by which scripts tell sessions apart, so that they cannot. */
  hidesSession?: true;
  /** Chat: where its answers have their thoughts. Default: they show none. */
  thoughts?: 'reasoning_content' | 'reasoning';
  /** Chat: no chunk has a finish reason; `[DONE]` alone ends the stream. */
  hasNoReason?: true;
  /** Chat: each call has a signature. */
  signsCalls?: true;
  /** Messages: whether thinking is signed, and whether the signature holds for its prompt only. Default: `bound`. */
  signs?: 'bound' | 'free' | 'never';
  /** Responses: reasoning has no encrypted content, also if it is asked for. */
  hidesReasoning?: true;
}>;

/** The rule that a request breaks, with the words of the endpoint's refusal. Undefined words: the request keeps the rule. */
export type Rule<Body> = Readonly<{
  name: string;
  words: (body: Body) => string | undefined;
  status?: number;
  wrap?: (words: string) => unknown;
}>;

const openai = (message: string) => ({ error: { message, type: 'invalid_request_error' } });

export function refusalBy<Body>(rules: readonly Rule<Body>[], body: Body): FormRefusal | undefined {
  for (const { name, words, status = 400, wrap = openai } of rules) {
    const broken = words(body);
    if (broken !== undefined) return { rule: name, status, body: wrap(broken) };
  }
  return undefined;
}

export const refusesField = <Body>(field: keyof Body & string, words: string): Rule<Body> => ({
  name: field,
  words: (body) => (body[field] === undefined ? undefined : words),
});

const COMBINATIONS = ['anyOf', 'oneOf', 'allOf'];

/** The place of the first schema with a combination at its root. -1: there is none. */
export const combinedAt = (schemas: readonly (object | undefined)[]): number =>
  schemas.findIndex((schema) => COMBINATIONS.some((key) => key in (schema ?? {})));

/** Whether a PNG as base64 can be shown: it begins and ends as one, and has a size. */
export function isReadablePng(base64: string): boolean {
  const bytes = Buffer.from(base64, 'base64');
  const hasSize = bytes.length > 33 && bytes.readUInt32BE(16) > 0 && bytes.readUInt32BE(20) > 0;
  return hasSize && bytes.subarray(1, 4).toString('latin1') === 'PNG' && bytes.includes('IEND', 0, 'latin1');
}

/** Whether the text of a request has a PNG, as a data URL, that cannot be shown. */
export const hasBrokenPicture = (text: string): boolean =>
  [...text.matchAll(/data:image\/png;base64,([A-Za-z0-9+/=]*)/g)].some(([, data = '']) => !isReadablePng(data));
