import type { RecordedStep, Recording } from '../simulator/recording.ts';

/** An expected message of the transcript, and the line of the recording where it begins. */
export type ExpectedMessage = Readonly<
  { at: string } & ({ type: 'user'; texts: readonly string[] } | { type: 'step'; step: RecordedStep })
>;

/** The expected messages of a recording. Successive user messages wait together and become one, with a text for each. */
export function expectedMessages({ entries }: Recording): ExpectedMessage[] {
  const messages: ExpectedMessage[] = [];
  let waiting: { at: string; texts: string[] } | null = null;
  const takeUp = (): void => {
    if (waiting !== null) messages.push({ type: 'user', at: waiting.at, texts: waiting.texts });
    waiting = null;
  };
  for (const [index, entry] of entries.entries()) {
    // The header is line 1.
    const at = `line ${index + 2} (${entry.type})`;
    if (entry.type === 'user') {
      waiting ??= { at, texts: [] };
      waiting.texts.push(entry.text);
      continue;
    }
    takeUp();
    messages.push({ type: 'step', at, step: entry });
  }
  takeUp();
  return messages;
}
