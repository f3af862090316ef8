//! Cutting the body of a list into its items while it arrives.
//!
//! A page is one JSON object that holds all its items, so a parser that reads it whole needs
//! memory for the page. This one only finds where values begin and end: each item is handed out
//! as soon as its last byte is there and is then forgotten. What is inside an item is the
//! decoder's business, and so is its validity.

use memchr::memchr2;
use serde::Deserialize;

/// Keys of a list are short; a longer one is certainly none that matters.
const KEY_LIMIT: usize = 64;
/// A buffer that grew beyond this for one large item is given back afterwards.
const KEPT_CAPACITY: usize = 256 * 1024;

/// Finds items and metadata in chunks as they come from the network.
#[derive(Debug)]
pub(super) struct Page {
    state: State,
    value: Value,
    key: Vec<u8>,
    buffer: Vec<u8>,
    handed_out: bool,
    limit: usize,
}

/// A part of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// The bytes of one item.
    Item(&'a [u8]),
    /// An item was larger than the limit and is gone.
    TooLarge,
    /// The metadata of the list.
    Metadata(ListMeta),
}

/// What the metadata of a list says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    /// The version of the data that the list shows.
    pub(super) resource_version: String,
    /// Where the next page begins; empty on the last one.
    #[serde(rename = "continue")]
    pub(super) token: String,
}

/// The body is no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the list is malformed near {0}")]
pub(super) struct Malformed(&'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Key,
    InKey { escaped: bool },
    Colon,
    ValueStart,
    InValue(Use),
    Items,
    End,
}

/// What a value is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Item,
    Metadata,
    Nothing,
}

/// Where in a value the scan is.
#[derive(Debug, Clone, Copy, Default)]
struct Value {
    depth: usize,
    in_string: bool,
    escaped: bool,
    too_large: bool,
}

impl Page {
    /// A list whose items have at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            state: State::Start,
            value: Value::default(),
            key: Vec::new(),
            buffer: Vec::new(),
            handed_out: false,
            limit,
        }
    }

    /// Whether the list is complete.
    pub(super) fn is_complete(&self) -> bool {
        self.state == State::End
    }

    /// The next piece that ends in `rest`, which loses what was read. `None` when all of `rest`
    /// is read and the next chunk is needed.
    pub(super) fn next<'a, 'c: 'a>(
        &'a mut self,
        rest: &mut &'c [u8],
    ) -> Result<Option<Piece<'a>>, Malformed> {
        if self.handed_out {
            self.handed_out = false;
            self.buffer.clear();
            self.buffer.shrink_to(KEPT_CAPACITY);
        }
        while let Some(&byte) = rest.first() {
            if let State::InValue(used_for) = self.state {
                let Some(end) = self.value.end(rest) else {
                    self.keep(used_for, rest);
                    *rest = &[];
                    break;
                };
                let (tail, after) = rest.split_at(end);
                *rest = after;
                self.state = if used_for == Use::Item {
                    State::Items
                } else {
                    State::Key
                };
                if used_for == Use::Nothing {
                    continue;
                }
                return self.piece(used_for, tail).map(Some);
            }
            if self.structure(byte)? {
                *rest = &rest[1..];
            }
        }
        Ok(None)
    }

    /// Takes one byte outside of values and says whether it was used up.
    fn structure(&mut self, byte: u8) -> Result<bool, Malformed> {
        let blank = byte.is_ascii_whitespace();
        self.state = match (self.state, byte) {
            (State::InKey { escaped: false }, b'"') => State::Colon,
            (State::InKey { escaped }, _) => {
                if self.key.len() < KEY_LIMIT {
                    self.key.push(byte);
                }
                State::InKey {
                    escaped: byte == b'\\' && !escaped,
                }
            }
            (same, _) if blank => same,
            (State::Start, b'{') | (State::Key, b',') | (State::Items, b']') => State::Key,
            (State::Key, b'"') => {
                self.key.clear();
                State::InKey { escaped: false }
            }
            (State::Key, b'}') => State::End,
            (State::Colon, b':') => State::ValueStart,
            (State::ValueStart, b'[') if self.key == b"items" => State::Items,
            (State::ValueStart, _) => {
                let used_for = match &self.key[..] {
                    b"metadata" => Use::Metadata,
                    _ => Use::Nothing,
                };
                return Ok(self.enter(used_for));
            }
            (State::Items, b',') => State::Items,
            (State::Items, b'{') => return Ok(self.enter(Use::Item)),
            (State::Items, _) => return Err(Malformed("an item")),
            (State::End, _) => return Err(Malformed("its end")),
            _ => return Err(Malformed("a key")),
        };
        Ok(true)
    }

    /// Begins a value at the present byte, which stays unread.
    fn enter(&mut self, used_for: Use) -> bool {
        self.value = Value::default();
        self.state = State::InValue(used_for);
        false
    }

    fn keep(&mut self, used_for: Use, part: &[u8]) {
        if used_for == Use::Nothing || self.value.too_large {
            return;
        }
        if self.buffer.len() + part.len() > self.limit {
            self.value.too_large = true;
            self.buffer = Vec::new();
        } else {
            self.buffer.extend_from_slice(part);
        }
    }

    fn piece<'a>(&'a mut self, used_for: Use, tail: &'a [u8]) -> Result<Piece<'a>, Malformed> {
        let spans_chunks = !self.buffer.is_empty();
        if spans_chunks || tail.len() > self.limit || self.value.too_large {
            self.keep(used_for, tail);
            self.handed_out = true;
        }
        let bytes = if spans_chunks { &self.buffer } else { tail };
        match used_for {
            _ if self.value.too_large => Ok(Piece::TooLarge),
            Use::Metadata => serde_json::from_slice(bytes)
                .map(Piece::Metadata)
                .map_err(|_| Malformed("its metadata")),
            Use::Item | Use::Nothing => Ok(Piece::Item(bytes)),
        }
    }
}

impl Value {
    /// How many bytes of `chunk` still belong to the value, or `None` when all of them do.
    fn end(&mut self, chunk: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < chunk.len() {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                    at += 1;
                    continue;
                }
                // Most bytes of an object are text; nothing else can end it.
                at += memchr2(b'"', b'\\', &chunk[at..])?;
                if chunk[at] == b'\\' {
                    self.escaped = true;
                } else {
                    self.in_string = false;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                at += 1;
                continue;
            }
            match chunk[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                // A number or a literal has no end of its own.
                b',' | b'}' | b']' if self.depth == 0 => return Some(at),
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Read {
        items: Vec<Option<serde_json::Value>>,
        metadata: Option<ListMeta>,
        complete: bool,
    }

    fn read(body: &[u8], sizes: &[usize], limit: usize) -> Result<Read, Malformed> {
        let mut page = Page::new(limit);
        let mut read = Read::default();
        let mut sizes = sizes.iter().copied().cycle();
        let mut left = body;
        while !left.is_empty() {
            let size = sizes.next().unwrap().clamp(1, left.len());
            let (mut chunk, after) = left.split_at(size);
            left = after;
            while let Some(piece) = page.next(&mut chunk)? {
                match piece {
                    Piece::Item(item) => {
                        read.items.push(Some(serde_json::from_slice(item).unwrap()));
                    }
                    Piece::TooLarge => read.items.push(None),
                    Piece::Metadata(meta) => read.metadata = Some(meta),
                }
            }
            assert!(page.buffer.len() <= limit, "the buffer stays bounded");
        }
        read.complete = page.is_complete();
        Ok(read)
    }

    fn meta(version: &str, token: &str) -> ListMeta {
        ListMeta {
            resource_version: version.to_owned(),
            token: token.to_owned(),
        }
    }

    #[test]
    fn lists_of_all_shapes() {
        let some = |version, token| Some(meta(version, token));
        let head = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7""#;
        let cases = [
            (format!(r#"{head}}},"items":[]}}"#), 0, some("7", ""), true),
            (
                format!(r#"{head},"continue":"abc"}},"items":null}}"#),
                0,
                some("7", "abc"),
                true,
            ),
            (
                format!("{head}}},\"items\":[{{\"a\":1}}, {{\"b\":[{{}}]}}]}}\n"),
                2,
                some("7", ""),
                true,
            ),
            // Items before the metadata, strange keys and scalars on the way.
            (
                r#"{"x\"":"}]","n":-1.5e3,"t":true,"items":[{"s":"]}\\\""}],"metadata":{}}"#
                    .to_owned(),
                1,
                some("", ""),
                true,
            ),
            // Cut off.
            (
                format!(r#"{head}}},"items":[{{"a":1}}"#),
                1,
                some("7", ""),
                false,
            ),
            (
                format!(r#"{head}}},"items":[{{"a":"#),
                0,
                some("7", ""),
                false,
            ),
            (String::new(), 0, None, false),
        ];
        for (body, items, metadata, complete) in cases {
            for size in 1..=body.len().max(1) {
                let read = read(body.as_bytes(), &[size], 1000).expect(&body);
                assert_eq!(read.items.len(), items, "{body}");
                assert_eq!(read.metadata, metadata, "{body}");
                assert_eq!(read.complete, complete, "{body}");
            }
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for body in [
            "[]",
            "404 page not found",
            r#"{"items":[1]}"#,
            "{}{}",
            "{1:2}",
        ] {
            assert!(read(body.as_bytes(), &[100], 1000).is_err(), "{body}");
        }
    }

    #[test]
    fn an_item_too_large_is_skipped_and_the_next_is_whole() {
        let body = r#"{"items":[{"a":1},{"long":"0123456789"},{"b":2}]}"#;
        for size in 1..body.len() {
            let read = read(body.as_bytes(), &[size], 10).unwrap();
            let expected = [Some(json!({"a": 1})), None, Some(json!({"b": 2}))];
            assert_eq!(read.items, expected, "chunks of {size}");
            assert!(read.complete);
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|value| json!(value)),
            any::<i64>().prop_map(|value| json!(value)),
            any::<String>().prop_map(|value| json!(value)),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(|values| json!(values)),
                vec((any::<String>(), inner), 0..4)
                    .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn items_are_what_a_whole_parse_finds(
            items in vec(any_json().prop_map(|value| json!({ "value": value })), 0..8),
            other in any_json(),
            pretty in any::<bool>(),
            sizes in vec(1_usize..60, 1..20),
        ) {
            let list = json!({ "aside": other, "items": items, "metadata": { "continue": "c" } });
            let body = if pretty { format!("{list:#}") } else { list.to_string() };
            let read = read(body.as_bytes(), &sizes, 1 << 20).unwrap();
            let expected: Vec<_> = items.into_iter().map(Some).collect();
            prop_assert_eq!(read.items, expected);
            prop_assert_eq!(read.metadata, Some(meta("", "c")));
            prop_assert!(read.complete);
        }
    }
}
