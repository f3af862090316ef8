//! Numbers, texts and lists as Kafka's protocol writes them.
//!
//! What comes from a broker is read without trust: nothing is allocated because a length says so.

/// An answer or a record batch that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the broker sent something that cannot be read")]
pub(crate) struct Malformed;

/// Bytes to be sent.
#[derive(Debug, Default)]
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn i8(&mut self, value: i8) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn i16(&mut self, value: i16) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    /// The number of elements of a list, or of bytes.
    pub(super) fn len(&mut self, length: usize) {
        self.i32(i32::try_from(length).expect("what is sent stays below 2 GiB"));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.i16(i16::try_from(text.len()).expect("names are short"));
        self.0.extend(text.as_bytes());
    }

    pub(super) fn no_text(&mut self) {
        self.i16(-1);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.len(bytes.len());
        self.0.extend(bytes);
    }

    /// A number in as few bytes as it needs, small negative ones included.
    pub(super) fn varint(&mut self, value: i64) {
        let mut rest = value.cast_unsigned() << 1;
        if value < 0 {
            rest = !rest;
        }
        while rest >= 0x80 {
            self.0.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        self.0.push(rest.to_le_bytes()[0]);
    }

    /// Bytes with their length as a varint; none is −1.
    pub(super) fn varbytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.varint(-1),
            Some(bytes) => {
                self.varint(i64::try_from(bytes.len()).expect("a length"));
                self.0.extend(bytes);
            }
        }
    }
}

/// Bytes that were received.
#[derive(Debug, Clone, Copy)]
pub(super) struct In<'a>(pub(super) &'a [u8]);

impl<'a> In<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub(super) fn i8(&mut self) -> Result<i8, Malformed> {
        self.array().map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        self.nullable_text()?.ok_or(Malformed)
    }

    pub(super) fn nullable_text(&mut self) -> Result<Option<&'a str>, Malformed> {
        let length = self.i16()?;
        if length == -1 {
            return Ok(None);
        }
        let bytes = self.take(usize::try_from(length).map_err(|_| Malformed)?)?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| Malformed)
    }

    pub(super) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let length = self.i32()?;
        if length == -1 {
            return Ok(None);
        }
        self.take(usize::try_from(length).map_err(|_| Malformed)?)
            .map(Some)
    }

    /// The elements of a list; none at all reads as an empty one. The list grows with what is
    /// there, not with what is promised.
    pub(super) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.i32()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(element(self)?);
        }
        Ok(list)
    }

    pub(super) fn varint(&mut self) -> Result<i64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.array::<1>()?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let half = (value >> 1).cast_signed();
                return Ok(if value & 1 == 0 { half } else { !half });
            }
        }
        Err(Malformed)
    }

    /// Bytes with their length as a varint.
    pub(super) fn varbytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let length = self.varint()?;
        if length == -1 {
            return Ok(None);
        }
        self.take(usize::try_from(length).map_err(|_| Malformed)?)
            .map(Some)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values of the protocol's own documentation of zig-zag numbers.
    #[test]
    fn small_numbers_are_short() {
        for (value, bytes) in [
            (0_i64, &[0_u8][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[126]),
            (-64, &[127]),
            (64, &[0x80, 1]),
            (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut out = Out::default();
            out.varint(value);
            assert_eq!(out.0, bytes, "{value}");
            assert_eq!(In(&out.0).varint(), Ok(value));
        }
    }

    #[test]
    fn promises_are_not_believed() {
        assert_eq!(
            In(&[0x7f, 0xff, 0xff, 0xff]).nullable_bytes(),
            Err(Malformed)
        );
        assert_eq!(In(&[0x7f, 0xff, 0xff, 0xff]).list(In::i8), Err(Malformed));
        assert_eq!(In(&[0xff; 12]).varint(), Err(Malformed));
        assert_eq!(In(&[0xff, 0xfe]).nullable_text(), Err(Malformed));
    }

    proptest! {
        #[test]
        fn numbers_come_back(value: i64) {
            let mut out = Out::default();
            out.varint(value);
            prop_assert_eq!(In(&out.0).varint(), Ok(value));
        }
    }
}
