//! Cutting a byte stream into lines without ever holding more than one of them.

use memchr::memchr;

/// A buffer that grew beyond this for one long line is given back afterwards.
const KEPT_CAPACITY: usize = 256 * 1024;

/// Finds line ends in chunks as they come from the network.
///
/// A line that lies within one chunk is handed out in place; only a line that spans chunks is
/// copied together. A line beyond the limit is skipped up to its end, so that one monstrous object
/// costs neither the memory for it nor the stream.
#[derive(Debug)]
pub(super) struct Lines {
    partial: Vec<u8>,
    handed_out: bool,
    limit: usize,
    skipping: bool,
}

/// What stood between two line ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// The bytes without the line end.
    Complete(&'a [u8]),
    /// The line was longer than the limit and is gone.
    TooLong,
}

impl Lines {
    /// Lines of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            partial: Vec::new(),
            handed_out: false,
            limit,
            skipping: false,
        }
    }

    /// The next line that ends in `rest`, which loses what was read. `None` when all of `rest` is
    /// read and the next chunk is needed. Empty lines are left out.
    pub(super) fn next<'a, 'c: 'a>(&'a mut self, rest: &mut &'c [u8]) -> Option<Line<'a>> {
        self.reclaim();
        loop {
            let Some(end) = memchr(b'\n', rest) else {
                self.keep(rest);
                *rest = &[];
                return None;
            };
            let head = &rest[..end];
            *rest = &rest[end + 1..];
            if self.skipping {
                self.skipping = false;
                return Some(Line::TooLong);
            }
            if self.partial.len() + head.len() > self.limit {
                self.partial.clear();
                return Some(Line::TooLong);
            }
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(head);
                self.handed_out = true;
                return Some(Line::Complete(&self.partial));
            }
            if !head.is_empty() {
                return Some(Line::Complete(head));
            }
        }
    }

    /// Empties the buffer that the line before was handed out from.
    fn reclaim(&mut self) {
        if self.handed_out {
            self.handed_out = false;
            self.partial.clear();
            self.partial.shrink_to(KEPT_CAPACITY);
        }
    }

    fn keep(&mut self, tail: &[u8]) {
        if self.skipping {
            return;
        }
        if self.partial.len() + tail.len() > self.limit {
            self.skipping = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Feeds `text` in chunks of the given sizes, over and over, and returns the lines; a line
    /// that was too long is `None`.
    fn cut(text: &[u8], sizes: &[usize], limit: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        let mut sizes = sizes.iter().copied().cycle();
        let mut left = text;
        while !left.is_empty() {
            let size = sizes.next().unwrap().clamp(1, left.len());
            let (mut chunk, after) = left.split_at(size);
            left = after;
            while let Some(line) = lines.next(&mut chunk) {
                found.push(match line {
                    Line::Complete(bytes) => Some(bytes.to_vec()),
                    Line::TooLong => None,
                });
            }
            assert!(lines.partial.len() <= limit, "the buffer stays bounded");
        }
        found
    }

    #[test]
    fn an_unfinished_last_line_is_not_handed_out() {
        let found = cut(b"a\n\nbb\nccc", &[100], 10);
        assert_eq!(found, [Some(b"a".to_vec()), Some(b"bb".to_vec())]);
    }

    #[test]
    fn a_line_too_long_is_skipped_and_the_next_is_whole() {
        let text = b"12345\n123456\n1234567890123\n1\n";
        for size in 1..text.len() {
            let found = cut(text, &[size], 5);
            let expected = [Some(b"12345".to_vec()), None, None, Some(b"1".to_vec())];
            assert_eq!(found, expected, "chunks of {size}");
        }
    }

    proptest! {
        #[test]
        fn chunking_does_not_matter(
            lines in vec(vec(32_u8..127, 0..40), 0..30),
            sizes in vec(1_usize..50, 1..20),
            limit in 1_usize..40,
        ) {
            let mut text = Vec::new();
            for line in &lines {
                text.extend_from_slice(line);
                text.push(b'\n');
            }
            let expected: Vec<_> = lines
                .iter()
                .filter(|line| !line.is_empty())
                .map(|line| (line.len() <= limit).then(|| line.clone()))
                .collect();
            prop_assert_eq!(cut(&text, &sizes, limit), expected);
        }
    }
}
