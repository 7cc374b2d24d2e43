/** The model reads this in place of binary data. */
export function mediaNotice(mediaType: string, bytes: number): string {
  return `[${mediaType}, ${bytes} bytes, not shown]`;
}
