import type { RecordedStep, Recording } from '../simulator/recording.ts';
import type { Part } from '../src/domain/transcript/message.ts';
import { sanitizeText } from '../src/tools/sanitize-text.ts';
import type { StoredMessage } from './api-client.ts';
import { expectedMessages } from './expected-messages.ts';
import { expectedParts } from './expected-parts.ts';
import { compareValues, type Mismatch } from './mismatch.ts';

type Comparison = Readonly<{ asksOnceMore: boolean; comparesUsage?: boolean }>;

/** True: the message is a summary of earlier ones, not part of the conversation. */
export const isSummary = ({ parts }: StoredMessage): boolean => parts.some((part) => part.type === 'compaction');

/**
 * Compares the stored transcript with the recording, message by message and part by part. Successive user messages are
 * expected as the one message that a step drains. Not compared:
 * - provider metadata, which is the simulated provider's own
 * - tokens written to a cache, which the Responses protocol does not report
 * - summaries, because the messages that they replace are still in the transcript
 * @param asksOnceMore a closing message of the assistant is expected after the recorded ones; its content is not
 * compared
 * @param comparesUsage false if the provider billed counted, not recorded tokens
 */
export function compareTranscript(
  recording: Recording,
  transcript: readonly StoredMessage[],
  { asksOnceMore, comparesUsage = true }: Comparison,
): Mismatch[] {
  const expected = expectedMessages(recording);
  const spoken = withoutStopped(
    recording,
    transcript.filter((message) => !isSummary(message)),
  );
  const mismatches = expected.flatMap((wanted, index) => {
    const { at } = wanted;
    const message = spoken[index];
    if (message === undefined) return [{ at, expected: 'a message', actual: 'none' }];
    if (wanted.type === 'user') return compareUser(at, wanted.texts, message);
    return compareStep(at, comparesUsage ? wanted.step : { ...wanted.step, usage: undefined }, message);
  });
  const rest = spoken.slice(expected.length).map((message) => message.role);
  return [...mismatches, ...compareValues('after the recording', asksOnceMore ? ['assistant'] : [], rest)];
}

/** The transcript without partial answers that the service stopped for lack of room; the whole answer follows each. */
export function withoutStopped(recording: Recording, messages: readonly StoredMessage[]): StoredMessage[] {
  const expected = expectedMessages(recording);
  const kept: StoredMessage[] = [];
  for (const message of messages) {
    const wanted = expected[kept.length];
    if (wanted?.type !== 'step' || !isStopped(message, wanted.step)) kept.push(message);
  }
  return kept;
}

function isStopped({ role, finishReason, parts }: StoredMessage, step: RecordedStep): boolean {
  if (role !== 'assistant' || finishReason !== 'length' || step.finishReason === 'length') return false;
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');
  return sanitizeText(step.text).startsWith(text) && parts.every((part) => part.type !== 'tool');
}

function compareUser(at: string, texts: readonly string[], message: StoredMessage): Mismatch[] {
  if (message.role !== 'user') return compareValues(`${at}, role`, 'user', message.role);
  const isAlone = texts.length === 1;
  const parts = texts.map((text, index): Part => ({ type: 'text', text, ...(!isAlone && { queuedNo: index + 1 }) }));
  return compareParts(at, parts, message.parts);
}

function compareStep(at: string, step: RecordedStep, message: StoredMessage): Mismatch[] {
  if (message.role !== 'assistant') return compareValues(`${at}, role`, 'assistant', message.role);
  return [
    ...compareParts(at, expectedParts(step), message.parts),
    ...compareValues(`${at}, finish reason`, step.finishReason, message.finishReason),
    ...compareUsage(at, step.usage, message.usage),
  ];
}

function compareUsage(at: string, recorded: RecordedStep['usage'], stored: StoredMessage['usage']): Mismatch[] {
  if (recorded === undefined) return [];
  const expected = {
    inputTokens: recorded.input,
    cacheReadTokens: recorded.cacheRead,
    outputTokens: recorded.output,
    totalTokens: recorded.input + recorded.output,
  };
  if (stored === null) return compareValues(`${at}, usage`, expected, null);
  const { inputTokens, cacheReadTokens, outputTokens, totalTokens } = stored;
  return compareValues(`${at}, usage`, expected, { inputTokens, cacheReadTokens, outputTokens, totalTokens });
}

function compareParts(at: string, expected: readonly Part[], stored: readonly Part[]): Mismatch[] {
  const count = Math.max(expected.length, stored.length);
  return Array.from({ length: count }, (_, index) => {
    const [wanted, found] = [expected[index], stored[index]];
    const place = `${at}, part ${index + 1}`;
    if (wanted === undefined || found === undefined || wanted.type !== found.type) {
      return compareValues(`${place}, type`, wanted?.type, found?.type);
    }
    return compareFields(`${place} (${wanted.type})`, wanted, found);
  }).flat();
}

const NOT_COMPARED = new Set(['providerMetadata', 'resultProviderMetadata', 'outputBlobId']);

function compareFields(at: string, wanted: Part, found: Part): Mismatch[] {
  const [expected, actual] = [new Map(Object.entries(wanted)), new Map(Object.entries(found))];
  const names = new Set([...expected.keys(), ...actual.keys()]).difference(NOT_COMPARED);
  return [...names].flatMap((name) => compareValues(`${at}, ${name}`, expected.get(name), actual.get(name)));
}
