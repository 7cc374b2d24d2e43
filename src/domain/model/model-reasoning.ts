import type { ProviderMetadata } from '../transcript/message.ts';
import type { ModelAssistantPart, ModelReasoningPart } from './model-message.ts';

/** Keys of signatures. Providers refuse unsigned reasoning of their own, or treat it as plain text. */
const SIGNATURE_KEYS = [
  'reasoningEncryptedContent',
  'signature',
  'redactedData',
  'thoughtSignature',
  'encryptedContent',
] as const;

const ITEM_KEY = 'itemId';

/**
 * Where Baton notes, beside thoughts without a signature, that their endpoint may want them back with the calls that
 * they led to. `field`: where they stood.
 */
export const THOUGHTS = 'baton';

/** Whether the part is sent back only beside calls: it has no signature, and another endpoint may refuse it. */
const isKeptWithCalls = (part: ModelReasoningPart): boolean =>
  !isSigned(part) && isFilled(part.providerOptions?.[THOUGHTS]?.['field']);

const isFilled = (value: unknown): boolean => typeof value === 'string' && value !== '';

const namespacesOf = (metadata: ProviderMetadata | undefined) => Object.entries(metadata ?? {});

function isSigned(part: ModelReasoningPart): boolean {
  return namespacesOf(part.providerOptions).some(([, values]) => SIGNATURE_KEYS.some((key) => isFilled(values[key])));
}

/** Item of the Responses API that the part belongs to. One item may be several parts (its summaries). */
function itemOf(part: ModelReasoningPart): string | null {
  const found = namespacesOf(part.providerOptions).find(([, values]) => isFilled(values[ITEM_KEY]));
  return found === undefined ? null : `${found[0]}:${found[1][ITEM_KEY]}`;
}

/**
 * True: an item of the Responses API, which refuses one without its message or call after it; so it moves with the next
 * part. A signed thinking block (Anthropic) only has to come before the calls.
 */
export function isReasoningItem(part: ModelReasoningPart): boolean {
  return namespacesOf(part.providerOptions).some(
    ([, values]) => isFilled(values[ITEM_KEY]) || 'reasoningEncryptedContent' in values,
  );
}

/**
 * Removes reasoning that a provider would refuse: unsigned, or without the part after it that it belongs to. An item
 * counts as signed if one part is, because only its last summary carries the encrypted content.
 *
 * Thinking blocks move to the front, because Anthropic refuses a message that has some and does not start with one.
 */
export function keepValidReasoning(content: readonly ModelAssistantPart[]): ModelAssistantPart[] {
  const followed = keepFollowed(content);
  const signedItems = new Set(
    followed.map((part) => (part.type === 'reasoning' && isSigned(part) ? itemOf(part) : null)),
  );
  const hasCalls = followed.some((part) => part.type === 'tool-call' && part.providerExecuted !== true);
  const valid = followed.flatMap((part) => {
    if (part.type !== 'reasoning' || isSigned(part)) return [part];
    if (isKeptWithCalls(part)) return hasCalls ? [part] : [];
    const item = itemOf(part);
    return item !== null && signedItems.has(item) ? [withoutBlankSignature(part)] : [];
  });
  return startsRight(valid) ? valid : [...valid.filter(isThinking), ...valid.filter((part) => !isThinking(part))];
}

/** The SDK merges all summaries of an item, and the blank signature of one would replace the signature of another. */
function withoutBlankSignature(part: ModelReasoningPart): ModelReasoningPart {
  const providerOptions = Object.fromEntries(
    namespacesOf(part.providerOptions).map(([namespace, values]) => [
      namespace,
      Object.fromEntries(
        Object.entries(values).filter(([key, value]) => value !== '' || !SIGNATURE_KEYS.some((name) => name === key)),
      ),
    ]),
  );
  return { ...part, providerOptions };
}

const isThinking = (part: ModelAssistantPart): boolean => part.type === 'reasoning' && !isReasoningItem(part);

/** Thinking blocks may also stand between other parts, as they were answered: only the first part matters. */
function startsRight([first]: readonly ModelAssistantPart[]): boolean {
  return first !== undefined && isThinking(first);
}

function keepFollowed(content: readonly ModelAssistantPart[]): ModelAssistantPart[] {
  const lastBody = content.findLastIndex((part) => part.type !== 'reasoning');
  // A request that stores nothing leaves out calls that the provider ran itself, so no item can rely on them.
  const lastSent = content.findLastIndex(
    (part) => part.type === 'text' || (part.type === 'tool-call' && part.providerExecuted !== true),
  );
  return content.filter(
    (part, index) => part.type !== 'reasoning' || index < (isReasoningItem(part) ? lastSent : lastBody),
  );
}
