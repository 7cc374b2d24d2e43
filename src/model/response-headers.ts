import { type LanguageModel, wrapLanguageModel } from 'ai';

/** `headers`: of the response to its latest call; null: none. */
type WatchedModel = Readonly<{ model: LanguageModel; headers: () => Readonly<Record<string, string>> | null }>;

/**
 * Keeps the headers of a response that begins well. The error of an answer that breaks off later has none, nor has that
 * of a page from something else than the provider.
 */
export function watchHeaders(model: LanguageModel): WatchedModel {
  let headers: Readonly<Record<string, string>> | null = null;
  if (typeof model === 'string' || model.specificationVersion !== 'v4') return { model, headers: () => null };
  const watched = wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: 'v4',
      async wrapStream({ doStream }) {
        const answering = await doStream();
        headers = answering.response?.headers ?? null;
        return answering;
      },
    },
  });
  return { model: watched, headers: () => headers };
}
