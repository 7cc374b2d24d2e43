/** What the model reads in place of data that is no text. */
export function mediaNotice(mediaType: string, bytes: number): string {
  return `[${mediaType}, ${bytes} bytes, not shown]`;
}
