/**
 * The blocks of docs/client.md as one program, with the functions that they call. It prints their results.
 * @param before declares `sessionId`
 * @param meanwhile runs while the session works, after the refused message
 */
export function clientProgram(
  create: string,
  follow: string,
  refused: string,
  before: string,
  meanwhile: string,
): string {
  return `import { z } from 'zod';
${create}
${before}
const done = new AbortController();
const { signal } = done;
const seen = { answered: '', text: '', forgotten: 0, discarded: 0, after: 0 };
const show = (_messageId: string, content: string): void => void (seen.text += content);
const discard = (_messageId: string): void => void (seen.discarded += 1);
const forgetEverything = (): void => void (seen.forgotten += 1);
const remember = (seq: number): void => {
  seen.after = seq;
  done.abort();
};
async function sendNext() {
${refused}  return 'sent';
}
await client.send(sessionId, 'First');
seen.answered = String(await sendNext());
${meanwhile}
${follow}
process.stdout.write(JSON.stringify(seen));
`;
}
