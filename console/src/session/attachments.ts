import type { UserPart } from '@baton-run/server/client';
import { useState } from 'react';
import { client } from '../api.ts';
import { failureWords } from '../format.ts';

export type Attachment = Readonly<{
  no: number;
  name: string;
  state: 'sending' | 'ready' | 'failed';
  words: string;
  part: UserPart | null;
}>;

export type Attachments = Readonly<{
  files: readonly Attachment[];
  add: (files: Iterable<File>) => void;
  remove: (no: number) => void;
  clear: () => void;
  /** Puts files back in front of those that have been added since. */
  restore: (files: readonly Attachment[]) => void;
}>;

let lastNo = 0;

/** Files beside a message. They are uploaded at once, so that sending waits for nothing. */
export function useAttachments(): Attachments {
  const [files, setFiles] = useState<readonly Attachment[]>([]);
  const change = (no: number, part: Partial<Attachment>): void =>
    setFiles((before) => before.map((file) => (file.no === no ? { ...file, ...part } : file)));
  const upload = async (no: number, file: File): Promise<void> => {
    try {
      const { id, mediaType } = await client.blobs.upload(file);
      const part: UserPart = { type: 'file', blobId: id, mediaType, ...(file.name !== '' && { filename: file.name }) };
      change(no, { state: 'ready', part, words: '' });
    } catch (error) {
      change(no, { state: 'failed', words: failureWords(error) });
    }
  };
  return {
    files,
    add(added) {
      for (const file of added) {
        lastNo += 1;
        const attachment: Attachment = {
          no: lastNo,
          name: file.name || 'file',
          state: 'sending',
          words: 'uploading',
          part: null,
        };
        setFiles((before) => [...before, attachment]);
        void upload(attachment.no, file);
      }
    },
    remove: (no) => setFiles((before) => before.filter((file) => file.no !== no)),
    clear: () => setFiles([]),
    restore: (again) => setFiles((since) => [...again, ...since]),
  };
}
