import { failureWords } from './format.ts';
import { notify } from './notices.ts';

/**
 * Runs an action and says at the top of the page how it went.
 * @param run resolves with the sentence to say
 * @returns whether it was done
 */
export async function act(run: () => Promise<string>): Promise<boolean> {
  try {
    notify(await run());
    return true;
  } catch (error) {
    notify(failureWords(error), 'failed');
    return false;
  }
}
