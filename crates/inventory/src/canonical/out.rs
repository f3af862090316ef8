//! Where JSON text goes: a buffer, a hash, or only a counter.

/// A destination for pieces of JSON text.
///
/// One serialiser serves three needs: bytes for a document, a digest without keeping the bytes,
/// and a length without producing them. Text rather than bytes, so that whatever is collected
/// from it is known to be UTF-8 without looking at it again.
pub trait Out {
    /// Takes the next piece.
    fn put(&mut self, text: &str);
}

impl Out for String {
    #[inline]
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Out for Vec<u8> {
    #[inline]
    fn put(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// Counts bytes and keeps none: the exact length of a text that need not exist yet.
#[derive(Debug, Default, Clone, Copy)]
pub struct Length(usize);

impl Length {
    /// Bytes counted so far.
    pub fn bytes(self) -> usize {
        self.0
    }

    /// The number of bytes that `write` produces.
    pub fn of(write: impl FnOnce(&mut Length)) -> usize {
        let mut length = Length::default();
        write(&mut length);
        length.0
    }
}

impl Out for Length {
    #[inline]
    fn put(&mut self, text: &str) {
        self.0 += text.len();
    }
}
