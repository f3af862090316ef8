//! Cutting objects out of JSON while it is read.
//!
//! A dump is one object that holds all others, often larger than memory should be. Only where values begin and end is found here; what
//! is inside of one is its reader's business, and so is its validity.

use std::io::{self, Read};

use anyhow::anyhow;
use memchr::{memchr_iter, memchr2};
use serde_json::Value;

/// How much is read at a time.
const CHUNK: usize = 256 * 1024;

/// The largest object; an API server takes none that is larger than some megabytes.
const LARGEST: usize = 64 * 1024 * 1024;

/// Something that was cut out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// An object that stands alone, or in a bare array.
    Object,
    /// An element of a list. The list may not have said yet what it is a list of.
    Item,
    /// The end of a list: everything but its items, as an object.
    List,
}

/// Why it cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum CutError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("line {0}: this JSON cannot be read, or ends too early")]
    Malformed(usize),
    #[error("line {0}: an object is larger than {LARGEST} bytes")]
    TooLarge(usize),
}

impl CutError {
    /// The error with the name of the file.
    pub(super) fn of(self, file: &str) -> anyhow::Error {
        match self {
            CutError::Io(error) => anyhow::Error::new(error).context(format!("cannot read {file}")),
            CutError::Malformed(line) => {
                anyhow!("{file}:{line}: this JSON cannot be read, or ends too early")
            }
            CutError::TooLarge(line) => {
                anyhow!("{file}:{line}: an object is larger than {LARGEST} bytes")
            }
        }
    }
}

/// Finds objects in a stream of bytes.
pub(super) struct Cutter<R> {
    source: R,
    chunk: Vec<u8>,
    at: usize,
    end: usize,
    lines: usize,
    state: State,
    /// How many bare arrays are open.
    arrays: usize,
    /// Everything of a list but its items.
    head: Vec<u8>,
    /// What the list that is open said of itself before its items.
    declared: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between values.
    Top,
    /// Among the items of a list.
    Items,
    /// Among the members of a list, behind its items.
    Members,
}

impl<R: Read> Cutter<R> {
    pub(super) fn new(source: R) -> Self {
        Self::sized(source, CHUNK)
    }

    /// Reads this much at a time.
    pub(super) fn sized(source: R, chunk: usize) -> Self {
        Self {
            source,
            chunk: vec![0; chunk.clamp(1, CHUNK)],
            at: 0,
            end: 0,
            lines: 1,
            state: State::Top,
            arrays: 0,
            head: Vec::new(),
            declared: Value::Null,
        }
    }

    /// What the list that is open said of itself before its items: `apiVersion` and `kind`, each empty if it did not.
    pub(super) fn declared(&self) -> (&str, &str) {
        let text = |name: &str| self.declared.get(name).and_then(Value::as_str);
        (
            text("apiVersion").unwrap_or_default(),
            text("kind").unwrap_or_default(),
        )
    }

    /// Cuts the next piece into `out`. Nothing means that this is the end.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<Piece>, CutError> {
        out.clear();
        loop {
            match self.state {
                State::Top => match self.token()? {
                    None if self.arrays == 0 => return Ok(None),
                    Some(b'[') => {
                        self.at += 1;
                        self.arrays += 1;
                    }
                    Some(b']') if self.arrays > 0 => {
                        self.at += 1;
                        self.arrays -= 1;
                    }
                    Some(b',') if self.arrays > 0 => self.at += 1,
                    Some(b'{') => {
                        self.at += 1;
                        self.head.clear();
                        self.head.push(b'{');
                        if !self.members()? {
                            out.extend_from_slice(&self.head);
                            return Ok(Some(Piece::Object));
                        }
                    }
                    _ => return Err(self.malformed()),
                },
                State::Items => match self.token()? {
                    Some(b',') => self.at += 1,
                    Some(b']') => {
                        self.at += 1;
                        self.head.push(b']');
                        self.state = State::Members;
                    }
                    Some(_) => {
                        self.value(out)?;
                        return Ok(Some(Piece::Item));
                    }
                    None => return Err(self.malformed()),
                },
                State::Members => {
                    if !self.members()? {
                        self.state = State::Top;
                        out.extend_from_slice(&self.head);
                        return Ok(Some(Piece::List));
                    }
                }
            }
        }
    }

    /// Reads members of an object into the head until items begin, which is true, or until it ends.
    fn members(&mut self) -> Result<bool, CutError> {
        loop {
            match self.token()? {
                Some(b'}') => {
                    self.at += 1;
                    self.head.push(b'}');
                    return Ok(false);
                }
                Some(b',') => {
                    self.at += 1;
                    self.head.push(b',');
                }
                Some(b'"') => {
                    let begin = self.head.len();
                    let mut head = std::mem::take(&mut self.head);
                    self.value(&mut head)?;
                    let is_items = &head[begin..] == b"\"items\"";
                    if self.token()? != Some(b':') {
                        return Err(self.malformed());
                    }
                    self.at += 1;
                    head.push(b':');
                    let first = self.token()?;
                    if is_items && first == Some(b'[') {
                        self.declared = begun(&head);
                    }
                    let (_, kind) = self.declared();
                    // A list says so in its kind, if it has said it already.
                    let may_be_list = kind.is_empty() || kind.ends_with("List");
                    if is_items && first == Some(b'[') && may_be_list {
                        self.at += 1;
                        head.push(b'[');
                        self.head = head;
                        self.state = State::Items;
                        return Ok(true);
                    }
                    self.value(&mut head)?;
                    self.head = head;
                }
                _ => return Err(self.malformed()),
            }
        }
    }

    /// Copies one value.
    fn value(&mut self, out: &mut Vec<u8>) -> Result<(), CutError> {
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        let begin = out.len();
        let scalar = !matches!(self.token()?, Some(b'{' | b'[' | b'"'));
        loop {
            if self.at == self.end && !self.fill()? {
                return if scalar && out.len() > begin {
                    Ok(())
                } else {
                    Err(self.malformed())
                };
            }
            let bytes = &self.chunk[self.at..self.end];
            let mut done = None;
            let mut i = 0;
            while i < bytes.len() {
                if scalar {
                    if matches!(bytes[i], b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t') {
                        done = Some(i);
                        break;
                    }
                    i += 1;
                } else if escaped {
                    escaped = false;
                    i += 1;
                } else if in_string {
                    let Some(found) = memchr2(b'"', b'\\', &bytes[i..]) else {
                        break;
                    };
                    i += found + 1;
                    if bytes[i - 1] == b'\\' {
                        escaped = true;
                    } else {
                        in_string = false;
                        if depth == 0 {
                            done = Some(i);
                            break;
                        }
                    }
                } else {
                    match bytes[i] {
                        b'"' => in_string = true,
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => {
                            depth = depth.saturating_sub(1);
                            if depth == 0 {
                                done = Some(i + 1);
                                break;
                            }
                        }
                        _ => {}
                    }
                    i += 1;
                }
            }
            let taken = done.unwrap_or(bytes.len());
            out.extend_from_slice(&bytes[..taken]);
            self.at += taken;
            if out.len() - begin > LARGEST {
                return Err(CutError::TooLarge(self.line()));
            }
            if done.is_some() {
                // A comma where a value belongs has no value before it.
                return if out.len() > begin {
                    Ok(())
                } else {
                    Err(self.malformed())
                };
            }
        }
    }

    /// The next byte that is no blank, without taking it.
    fn token(&mut self) -> Result<Option<u8>, CutError> {
        loop {
            let bytes = &self.chunk[self.at..self.end];
            let blank = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
            match bytes.iter().position(|byte| !blank(byte)) {
                Some(found) => {
                    self.at += found;
                    return Ok(Some(self.chunk[self.at]));
                }
                None if !self.fill()? => return Ok(None),
                None => {}
            }
        }
    }

    fn fill(&mut self) -> Result<bool, CutError> {
        self.lines += memchr_iter(b'\n', &self.chunk[..self.end]).count();
        (self.at, self.end) = (0, 0);
        self.end = loop {
            match self.source.read(&mut self.chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        Ok(self.end > 0)
    }

    fn line(&self) -> usize {
        self.lines + memchr_iter(b'\n', &self.chunk[..self.at]).count()
    }

    fn malformed(&self) -> CutError {
        CutError::Malformed(self.line())
    }
}

/// The members of an object that is open at the value of one.
fn begun(head: &[u8]) -> Value {
    let text = String::from_utf8_lossy(head);
    serde_json::from_str(&format!("{text}null}}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn cut(text: &str, step: usize) -> Result<Vec<(Piece, String)>, CutError> {
        let mut cutter = Cutter::new(Drip(text.as_bytes(), step));
        let mut out = Vec::new();
        let mut pieces = Vec::new();
        while let Some(piece) = cutter.next(&mut out)? {
            pieces.push((piece, String::from_utf8_lossy(&out).into_owned()));
        }
        Ok(pieces)
    }

    #[test]
    fn objects_are_cut_wherever_chunks_end() {
        let table = [
            ("", vec![]),
            (r#" {"a":1} "#, vec![(Piece::Object, r#"{"a":1}"#)]),
            (
                r#"{"a":"}\"]"}{"b":[{}]}"#,
                vec![
                    (Piece::Object, r#"{"a":"}\"]"}"#),
                    (Piece::Object, r#"{"b":[{}]}"#),
                ],
            ),
            (
                r#"{"kind":"List","items":[{"x":[1]}, {"y":2}],"z":3}"#,
                vec![
                    (Piece::Item, r#"{"x":[1]}"#),
                    (Piece::Item, r#"{"y":2}"#),
                    (Piece::List, r#"{"kind":"List","items":[],"z":3}"#),
                ],
            ),
            (
                r#"[{"items":[1],"kind":"PodList"},{"kind":"Pod","items":[7]}]"#,
                vec![
                    (Piece::Item, "1"),
                    (Piece::List, r#"{"items":[],"kind":"PodList"}"#),
                    (Piece::Object, r#"{"kind":"Pod","items":[7]}"#),
                ],
            ),
        ];
        for (text, expected) in table {
            for step in [1, 2, 3, 7, 1000] {
                let cut = cut(text, step).unwrap_or_else(|error| panic!("{text}: {error}"));
                let cut: Vec<(Piece, &str)> = cut
                    .iter()
                    .map(|(piece, text)| {
                        let piece = match piece {
                            Piece::Object => Piece::Object,
                            Piece::Item => Piece::Item,
                            Piece::List => Piece::List,
                        };
                        (piece, text.as_str())
                    })
                    .collect();
                assert_eq!(cut, expected, "{text} by {step}");
            }
        }
    }

    #[test]
    fn what_is_broken_is_told_with_its_line() {
        for (text, line) in [
            ("{\n\n\"a\":", 3),
            ("\n[1]", 2),
            ("{\"items\":[{}", 1),
            ("{\"a\" 1}", 1),
            ("x", 1),
            ("{\"items\":[\n{},\n{\"a\":\"", 3),
        ] {
            let error = cut(text, 2).unwrap_err().to_string();
            let expected = format!("line {line}: ");
            assert!(error.starts_with(&expected), "{text:?}: {error}");
        }
    }
}
