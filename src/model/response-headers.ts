import { type LanguageModel, wrapLanguageModel } from 'ai';

/** A model, and what the response to its latest call began with. */
type WatchedModel = Readonly<{ model: LanguageModel; headers: () => Readonly<Record<string, string>> | null }>;

/**
 * Keeps the headers of a response that begins well: an answer that breaks off later carries none of them, nor does a
 * page that something else than the provider has answered with.
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
