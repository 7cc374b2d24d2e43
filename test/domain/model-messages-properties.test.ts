import { modelMessageSchema, type ModelMessage as SdkModelMessage } from 'ai';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { findViolations } from '../../simulator/strict.ts';
import { signThinking } from '../../simulator/thinking-signature.ts';
import { createWireMemo } from '../../simulator/wire.ts';
import { readMessagesRequest } from '../../simulator/wire-messages.ts';
import { withCacheBreakpoints } from '../../src/domain/model/cache-breakpoints.ts';
import { CONTINUE_NOTICE } from '../../src/domain/model/model-frames.ts';
import type { ModelMessage } from '../../src/domain/model/model-message.ts';
import { toModelMessages } from '../../src/domain/model/model-messages.ts';
import { mediaSupportOf, showMedia } from '../../src/domain/model/shown-media.ts';
import type { ViewMessage, ViewPart } from '../../src/domain/transcript/message.ts';
import { hashShown } from '../../src/model/request-hash.ts';
import { anthropicProblems, encodeForAnthropic } from './valid-for-anthropic.ts';
import { chatProblems, responsesProblems } from './valid-for-openai.ts';
import { anyModel, anyView } from './view-arbitrary.ts';
import { messagesBody, wireBody } from './wire.ts';

/** The media types of a model that takes every type. */
const MEDIA_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'application/pdf'];

const forAnyView = (check: (view: ViewMessage[], model: string) => void) =>
  fc.assert(fc.property(anyView, anyModel, check));

/** A call that the provider ran, and one whose result has items. */
function withBothKindsOfCalls(model: string): ViewMessage {
  const call = { type: 'tool', toolName: 'look', input: {}, state: 'completed' } as const;
  const items = { type: 'content', value: [{ type: 'text', text: 'Found.' }] } as const;
  return {
    id: 'both',
    seq: 1_000,
    role: 'assistant',
    model,
    parts: [
      { ...call, toolCallId: 'theirs', providerExecuted: true, output: { type: 'json', value: { found: 1 } } },
      { ...call, toolCallId: 'ours', output: { ...items, value: [...items.value] } },
    ],
  };
}

describe('what the model is shown of any view', () => {
  it('is a list of ModelMessages, by the types and by the schema of the SDK', () => {
    forAnyView((view, model) => {
      const messages: SdkModelMessage[] = toModelMessages(view, { model }) satisfies SdkModelMessage[];
      z.array(modelMessageSchema).parse(messages);
    });
  });

  it('is valid for Anthropic', () => {
    forAnyView((view, model) => {
      expect(anthropicProblems(encodeForAnthropic(toModelMessages(view, { model })))).toEqual([]);
    });
  });

  it('reaches the Messages API as a request that its strictest checker takes', async () => {
    await fc.assert(
      fc.asyncProperty(anyView, async (view) => {
        const messages = toModelMessages(signed(view), { model: 'anthropic/claude', providerTools: false });
        const body = await messagesBody('claude', withCacheBreakpoints(messages));
        const request = readMessagesRequest(body, createWireMemo());
        expect(findViolations(request, { wasSentAfterCalls: () => false })).toEqual([]);
        expect(request.messages?.breakpoints.length).toBeLessThanOrEqual(4);
      }),
    );
  });

  it('keeps the thinking that the Messages API gave out for the model, and only that', async () => {
    const thinking = (model: string | null, text: string): ViewMessage => ({
      id: `m-${text}`,
      seq: 1,
      role: 'assistant',
      model,
      parts: [
        { type: 'reasoning', text, providerMetadata: { anthropic: { signature: 'c2ln' } } },
        { type: 'text', text: 'So.' },
      ],
    });
    const view = [thinking('anthropic/claude', 'own'), thinking('anthropic/other', 'foreign'), thinking(null, 'lost')];
    const body = await messagesBody('claude', toModelMessages(signed(view), { model: 'anthropic/claude' }));
    expect(JSON.stringify(body)).toContain('"thinking":"own"');
    expect(JSON.stringify(body)).not.toMatch(/foreign|lost/);
  });

  it('reaches the Responses API as a valid request that refers to nothing stored', async () => {
    await fc.assert(
      fc.asyncProperty(anyView, anyModel, async (view, model) => {
        const shown = showMedia(view, mediaSupportOf('openai-responses', MEDIA_TYPES)).view;
        const body = await wireBody('responses', toModelMessages(shown, { model }));
        expect(body.store).toBe(false);
        expect(responsesProblems(body.input ?? [])).toEqual([]);
      }),
    );
  });

  it('reaches the chat completions API as a valid request', async () => {
    await fc.assert(
      fc.asyncProperty(anyView, anyModel, fc.boolean(), async (view, model, isIllustrated) => {
        const given = isIllustrated ? illustrated(view) : view;
        const shown = showMedia(given, mediaSupportOf('openai-chat', MEDIA_TYPES)).view;
        const options = { model, providerTools: false, filesAfterResults: true };
        const body = await wireBody('chat', toModelMessages(shown, options));
        expect(chatProblems(body.messages ?? [])).toEqual([]);
        const messages = toModelMessages(shown, options);
        expect(filesIn(messages.filter(({ role }) => role === 'tool'))).toEqual([]);
        // The files have moved: none was lost on the way, and none comes twice.
        const within = toModelMessages(shown, { ...options, filesAfterResults: false });
        expect(filesIn(messages)).toEqual(filesIn(within));
      }),
    );
  });

  it('is the same for the same view, and the view stays as it was', () => {
    forAnyView((view, model) => {
      const before = JSON.stringify(view);
      const first = JSON.stringify(toModelMessages(view, { model }));
      expect(JSON.stringify(toModelMessages(view, { model }))).toBe(first);
      expect(JSON.stringify(view)).toBe(before);
    });
  });

  it('does not depend on how its messages were shown before: to another model, in other forms, after other messages', () => {
    fc.assert(
      fc.property(anyView, anyModel, fc.boolean(), (given, model, providerTools) => {
        const view = [...given, withBothKindsOfCalls(model)];
        const options = { model, calls: true, providerTools, filesAfterResults: false };
        const ways: readonly ((shown: ViewMessage[]) => ModelMessage[])[] = [
          (shown) => toModelMessages(shown, { ...options, model: 'other/model' }),
          (shown) => toModelMessages(shown, { ...options, calls: false }),
          (shown) => toModelMessages(shown, { ...options, providerTools: !providerTools }),
          (shown) => toModelMessages(shown, { ...options, filesAfterResults: true }),
          // Calls of equal ids get other ones.
          (shown) => toModelMessages([...structuredClone(view), ...shown], options),
        ];
        for (const show of ways) {
          toModelMessages(view, options);
          const [messages, fresh] = [show(view), show(structuredClone(view))];
          expect(messages).toEqual(fresh);
          expect(hashShown('', messages, new Map())).toBe(hashShown('', fresh, new Map()));
        }
      }),
    );
  });

  it('only grows when the view grows, apart from the notice at its end', () => {
    forAnyView((view, model) => {
      for (const filesAfterResults of [false, true]) {
        const options = { model, filesAfterResults };
        const whole = flatten(toModelMessages(view, options));
        for (let length = 0; length < view.length; length++) {
          const earlier = withoutNotice(flatten(toModelMessages(view.slice(0, length), options)));
          expect(whole.slice(0, earlier.length)).toEqual(earlier);
        }
      }
    });
  });

  it('holds every text of the user, verbatim and in order', () => {
    forAnyView((view, model) => {
      const marked = view.map((message, seq) => ({
        ...message,
        parts: message.parts.map((part, index) =>
          part.type === 'text' && part.text.trim() !== ''
            ? { ...part, text: ` ${part.text}\n#${seq}.${index} ` }
            : part,
        ),
      }));
      const texts = (messages: readonly { role: string; content?: unknown; parts?: unknown }[]) =>
        messages
          .filter(({ role }) => role === 'user')
          .flatMap((message) => textSchema.parse(message.parts ?? message.content))
          .flatMap(({ text }) => (text !== undefined && /\n#\d+\.\d+ $/.test(text) ? [text] : []));
      expect(texts(toModelMessages(marked, { model }))).toEqual(texts(marked));
    });
  });

  it('holds every call and one result of it exactly once, in the order of its batch', () => {
    forAnyView((view, model) => {
      const marked = view.map((message, seq) => ({
        ...message,
        parts: message.parts.map((part, index) =>
          part.type === 'tool' ? { ...part, input: { mark: `${seq}.${index}` } } : part,
        ),
      }));
      const recorded = marked.flatMap((message) =>
        message.role === 'user' ? [] : message.parts.flatMap((part) => (part.type === 'tool' ? [part.input] : [])),
      );
      const parts = toModelMessages(marked, { model }).flatMap((message) => [...message.content]);
      const calls = parts.flatMap((part) => (part.type === 'tool-call' ? [part] : []));
      expect(calls.map((call) => call.input)).toHaveLength(recorded.length);
      expect(new Set(calls.map((call) => JSON.stringify(call.input)))).toEqual(
        new Set(recorded.map((input) => JSON.stringify(input))),
      );
      const client = calls.filter((call) => call.providerExecuted !== true).map((call) => JSON.stringify(call.input));
      expect(client).toEqual(recorded.map((input) => JSON.stringify(input)).filter((input) => client.includes(input)));
      const results = parts.flatMap((part) => (part.type === 'tool-result' ? [part.toolCallId] : []));
      expect(results).toEqual(calls.map((call) => call.toolCallId));
    });
  });

  it('keeps a recorded call id that providers accept and no earlier call has', () => {
    forAnyView((view, model) => {
      const recorded = view.flatMap((message) =>
        message.role === 'user'
          ? []
          : message.parts.flatMap((part) => (part.type === 'tool' ? [{ ...part, providerExecuted: false }] : [])),
      );
      const messages = toModelMessages(view, { model, providerTools: false });
      const ids = messages.flatMap((message) =>
        message.role === 'assistant'
          ? message.content.flatMap((part) => (part.type === 'tool-call' ? [part.toolCallId] : []))
          : [],
      );
      recorded.forEach(({ toolCallId }, index) => {
        if (!/^[a-zA-Z0-9_-]{1,64}$/.test(toolCallId) || ids.slice(0, index).includes(toolCallId)) return;
        expect(ids[index]).toBe(toolCallId);
      });
    });
  });
});

/** The view with signatures as the simulated API gives them, for each message's own model and text. */
function signed(view: readonly ViewMessage[]): ViewMessage[] {
  return view.map((message) => {
    const modelId = message.model?.split('/')[1] ?? 'lost';
    return {
      ...message,
      parts: message.parts.map((part) => {
        const { anthropic } = part.type === 'reasoning' ? (part.providerMetadata ?? {}) : {};
        if (part.type !== 'reasoning' || anthropic === undefined) return part;
        const values = {
          ...(anthropic['signature'] !== undefined && { signature: signThinking(modelId, part.text, 'elsewhere') }),
          ...(anthropic['redactedData'] !== undefined && { redactedData: signThinking(modelId, '', 'elsewhere') }),
        };
        return { ...part, providerMetadata: { ...part.providerMetadata, anthropic: values } };
      }),
    };
  });
}

/** The view with a picture in the result of each call of one of our tools. */
function illustrated(view: readonly ViewMessage[]): ViewMessage[] {
  const picture = { type: 'file' as const, mediaType: 'image/png', url: 'data:image/png;base64,iVBORw0KGgo=' };
  return view.map((message) => ({
    ...message,
    parts: message.parts.map(
      (part): ViewPart =>
        part.type === 'tool' && part.providerExecuted !== true
          ? { ...part, state: 'completed', output: { type: 'content', value: [picture] } }
          : part,
    ),
  }));
}

const textSchema = z.array(z.looseObject({ text: z.string().optional() }));

/** The files of messages in order, those within results included. */
function filesIn(messages: readonly ModelMessage[]): unknown[] {
  return messages.flatMap(({ content }) =>
    content.flatMap((part): unknown[] => {
      if (part.type !== 'tool-result') return part.type === 'file' ? [part] : [];
      return part.output.type === 'content' ? part.output.value.filter(({ type }) => type === 'file') : [];
    }),
  );
}

type Placed = { role: string; part: unknown };

function flatten(messages: readonly ModelMessage[]): Placed[] {
  return messages.flatMap(({ role, content }) => content.map((part) => ({ role, part })));
}

function withoutNotice(parts: readonly Placed[]): Placed[] {
  const last = parts.at(-1);
  const isNotice = JSON.stringify(last?.part) === JSON.stringify({ type: 'text', text: CONTINUE_NOTICE });
  return isNotice ? parts.slice(0, -1) : [...parts];
}
