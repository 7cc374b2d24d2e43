import { fork } from 'node:child_process';
import { once } from 'node:events';

/** A child process that answers one question at a time. */
export type AskedProcess<Question, Answer> = AsyncDisposable &
  Readonly<{ ask: (question: Question) => Promise<Answer> }>;

type Said = Readonly<{ ready: true } | { answer: unknown } | { failed: string }>;

/** Starts a file that calls `answerParent` and waits until it is ready. Its stdout is dropped, its stderr is ours. */
export async function startAsked<Question extends object, Answer>(file: URL): Promise<AskedProcess<Question, Answer>> {
  const child = fork(file, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const exited = once(child, 'exit');
  const failed = exited.then(() => {
    throw new Error(`${file.pathname} has ended`);
  });
  failed.catch(() => undefined);
  let said = Promise.withResolvers<Said>();
  child.on('message', (message: Said) => said.resolve(message));
  await Promise.race([said.promise, failed]);
  return {
    async ask(question) {
      said = Promise.withResolvers();
      child.send(question);
      const message = await Promise.race([said.promise, failed]);
      if ('answer' in message) return message.answer as Answer;
      throw new Error(`${file.pathname}: ${'failed' in message ? message.failed : 'no answer'}`);
    },
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}

/** Answers the parent's questions until the parent is gone; then the process ends. */
export function answerParent<Question, Answer>(answer: (question: Question) => Promise<Answer>): void {
  const tell = (said: Said): void => void process.send?.(said);
  process.on('message', (question: Question) => {
    answer(question).then(
      (answered) => tell({ answer: answered }),
      (error: unknown) => tell({ failed: String(error) }),
    );
  });
  process.on('disconnect', () => process.exit(0));
  tell({ ready: true });
}
