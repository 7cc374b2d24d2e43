import type { ProviderMetadata } from '../transcript/message.ts';
import type { ModelAssistantPart, ModelReasoningPart } from './model-message.ts';

/** Where providers put what proves that a reasoning is theirs; without it they refuse it or treat it as plain text. */
const SIGNATURE_KEYS = [
  'reasoningEncryptedContent',
  'signature',
  'redactedData',
  'thoughtSignature',
  'encryptedContent',
] as const;

/** The key under which the Responses API names the item that a part belongs to. */
const ITEM_KEY = 'itemId';

const isFilled = (value: unknown): boolean => typeof value === 'string' && value !== '';

const namespacesOf = (metadata: ProviderMetadata | undefined) => Object.entries(metadata ?? {});

function isSigned(part: ModelReasoningPart): boolean {
  return namespacesOf(part.providerOptions).some(([, values]) => SIGNATURE_KEYS.some((key) => isFilled(values[key])));
}

/** The item of the Responses API that the part belongs to; one item may be several parts (its summaries). */
function itemOf(part: ModelReasoningPart): string | null {
  const found = namespacesOf(part.providerOptions).find(([, values]) => isFilled(values[ITEM_KEY]));
  return found === undefined ? null : `${found[0]}:${found[1][ITEM_KEY]}`;
}

/**
 * True for a reasoning item of the Responses API. The API refuses one that its message or call does not follow, so
 * it travels with the part after it; a signed thinking block (Anthropic) only has to come before the calls.
 */
export function isReasoningItem(part: ModelReasoningPart): boolean {
  return namespacesOf(part.providerOptions).some(
    ([, values]) => isFilled(values[ITEM_KEY]) || 'reasoningEncryptedContent' in values,
  );
}

/**
 * Takes out the reasoning that a provider would refuse: with nothing behind it that it belongs to, or unsigned. An item
 * counts as signed when one of its parts is: only its last summary carries the encrypted content. Thinking blocks lead,
 * because Anthropic refuses a message that has some and does not start with one.
 */
export function keepValidReasoning(content: readonly ModelAssistantPart[]): ModelAssistantPart[] {
  const followed = keepFollowed(content);
  const signedItems = new Set(
    followed.map((part) => (part.type === 'reasoning' && isSigned(part) ? itemOf(part) : null)),
  );
  const valid = followed.flatMap((part) => {
    if (part.type !== 'reasoning' || isSigned(part)) return [part];
    const item = itemOf(part);
    return item !== null && signedItems.has(item) ? [withoutBlankSignature(part)] : [];
  });
  return startsRight(valid) ? valid : [...valid.filter(isThinking), ...valid.filter((part) => !isThinking(part))];
}

/** The SDK makes one item of all its summaries, and a blank of one would take the place of the signature of another. */
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

/** As they were answered, thinking blocks may stand between the parts too; what leads is all that matters. */
function startsRight([first]: readonly ModelAssistantPart[]): boolean {
  return first !== undefined && isThinking(first);
}

function keepFollowed(content: readonly ModelAssistantPart[]): ModelAssistantPart[] {
  const lastBody = content.findLastIndex((part) => part.type !== 'reasoning');
  // What the provider ran itself is not sent in a request that stores nothing, so no item can rely on it.
  const lastSent = content.findLastIndex(
    (part) => part.type === 'text' || (part.type === 'tool-call' && part.providerExecuted !== true),
  );
  return content.filter(
    (part, index) => part.type !== 'reasoning' || index < (isReasoningItem(part) ? lastSent : lastBody),
  );
}
