import { z } from 'zod';
import { chatRequestShape, type IncomingMessage } from '../../api/chat-body.ts';
import { BatonError } from '../../domain/errors.ts';
import { parseExactly } from '../../domain/exact-json.ts';
import type { Json } from '../../domain/transcript/message.ts';
import type { ActionKind, CallAnswer, RequiredAction } from '../../domain/transcript/required-action.ts';
import { MAX_DENIAL_REASON_CHARS } from '../../domain/tunables.ts';
import type { Approvals } from './approvals.ts';

type Conversation = Readonly<{
  messages?: readonly IncomingMessage[] | undefined;
  message?: IncomingMessage | undefined;
}>;
type ChatRequest = Conversation & Readonly<{ trigger: 'submit-message' | 'regenerate-message' }>;

/** The conversation that the client sent: whole, or its newest message alone. */
export function conversationOf({ messages = [], message }: Conversation): readonly IncomingMessage[] {
  return message === undefined ? messages : [...messages, message];
}

const conversationSchema = z.looseObject({ messages: chatRequestShape.messages, message: chatRequestShape.message });

/** The conversation with outputs as they were written: the validated body has JavaScript's numbers. */
export const writtenConversation = (text: string): readonly IncomingMessage[] =>
  conversationOf(conversationSchema.parse(parseExactly(text)));

/** The new message; null: the client continues the assistant's message, whose calls it has answered. */
export function newMessageOf(request: ChatRequest): IncomingMessage | null {
  const conversation = conversationOf(request);
  const last = conversation.at(-1);
  if (last?.role === 'user') return last;
  if (request.trigger === 'submit-message') return null;
  return conversation.findLast(({ role }) => role === 'user') ?? null;
}

/**
 * The parts of a user message as `/v1` takes them, without the application's own `data-` parts and what a version of the
 * AI SDK notes of a provider.
 */
export function contentOf({ parts }: IncomingMessage): readonly unknown[] {
  return parts
    .filter(({ type }) => !type.startsWith('data-'))
    .map((part) => {
      if (part.type === 'text') return { type: 'text', text: part['text'] };
      const { providerMetadata: _metadata, providerReference: _reference, ...content } = part;
      return content;
    });
}

const deniedSchema = z.looseObject({ id: z.string() });
const respondedSchema = deniedSchema.extend({ approved: z.boolean(), reason: z.string().optional() });

/**
 * The client's answer to a required action; null: none. Ignores answers to earlier questions about the call, which stay
 * in the client's history.
 * @param approvals the questions that the client was asked
 * @throws BatonError `invalid_request` for a reason that is too long: ignored, it would leave the call waiting unseen
 */
export function answerIn(
  conversation: readonly IncomingMessage[],
  { id: callId, kind }: Pick<RequiredAction, 'id' | 'kind'>,
  approvals: Approvals,
): CallAnswer | null {
  for (const { role, parts } of conversation.toReversed()) {
    if (role !== 'assistant') continue;
    const part = parts.find((candidate) => candidate['toolCallId'] === callId);
    if (part !== undefined)
      return kind === 'output' || kind === 'input' ? toOutput(part) : toDecision(part, kind, approvals.get(callId));
  }
  return null;
}

type UiPart = Readonly<Record<string, unknown>>;

function toOutput({ state, output, errorText }: UiPart): CallAnswer | null {
  if (state === 'output-available') return { kind: 'output', output: (output ?? null) as Json };
  if (state === 'output-error') {
    const said = errorText ?? 'The tool failed.';
    return { kind: 'output', output: typeof said === 'string' ? said : JSON.stringify(said), isError: true };
  }
  return state === 'output-denied' ? { kind: 'deny' } : null;
}

/** How a page of version 5 decides, which has no approvals: by an output that names the question. */
const decisionSchema = z.strictObject({
  approvalId: z.string(),
  approved: z.boolean(),
  reason: z.string().optional(),
});

function toDecision(part: UiPart, kind: ActionKind, approvalId: string | undefined): CallAnswer | null {
  const { state, approval } = part;
  const decision = state === 'output-available' ? decisionSchema.safeParse(part['output']).data : undefined;
  if (decision !== undefined) return decision.approvalId === approvalId ? toAnswer(decision) : null;
  if (kind === 'unknown_outcome' && (state === 'output-available' || state === 'output-error')) return toOutput(part);
  if (deniedSchema.safeParse(approval).data?.id !== approvalId) return null;
  if (state === 'output-denied') return { kind: 'deny' };
  const responded = state === 'approval-responded' ? respondedSchema.safeParse(approval).data : undefined;
  return responded === undefined ? null : toAnswer(responded);
}

function toAnswer({ approved, reason }: Readonly<{ approved: boolean; reason?: string | undefined }>): CallAnswer {
  if (approved) return { kind: 'approve' };
  if (reason !== undefined && reason.length > MAX_DENIAL_REASON_CHARS) {
    throw new BatonError('invalid_request', `The reason of a denial has at most ${MAX_DENIAL_REASON_CHARS} characters`);
  }
  return { kind: 'deny', ...(reason !== undefined && { reason }) };
}
