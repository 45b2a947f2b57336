/** Offers a file to the user's browser. */

export function download(name: string, file: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The download has begun when the click was handled; the file may be forgotten after it.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
