import type { Message, SessionSnapshot } from './contract.ts';

type NamedFile = Readonly<{ type: 'file' | 'image'; mediaType?: string | undefined; filename?: string | undefined }>;

/** A user's text or file: an uploaded blob, base64, or a data or http(s) URL. */
export type UserPart =
  | Readonly<{ type: 'text'; text: string }>
  | (NamedFile & Readonly<{ blobId: string }>)
  | (NamedFile & Readonly<{ data: string }>)
  | (NamedFile & Readonly<{ url: string }>);

/** Oldest first. `next` is the `after` of the page that follows, `previous` the `before` of the one in front. */
export type MessagePage = Readonly<{ messages: readonly Message[]; next: number | null; previous: number | null }>;

/** A queued message, with its content or a reference to it. */
export type WaitingNotice = SessionSnapshot['queue'][number];

/** Replaces content that is too large to repeat: its size as JSON, and the path at which it can be read. */
export type ContentRef = NonNullable<WaitingNotice['contentRef']>;
