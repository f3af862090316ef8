//! Indented JSON.

use kollect_inventory::canonical::Out;

/// Writes compact canonical JSON again with two blanks per level and a final line break. Strings
/// and numbers stay as they are, byte for byte.
pub(super) fn indented(out: &mut String, compact: &str) {
    let mut depth = 0;
    let mut rest = compact;
    while let Some(first) = rest.bytes().next() {
        let taken = match first {
            b'{' | b'[' => {
                if rest[1..].starts_with(['}', ']']) {
                    out.put(&rest[..2]);
                    2
                } else {
                    out.put(&rest[..1]);
                    depth += 1;
                    new_line(out, depth);
                    1
                }
            }
            b'}' | b']' => {
                depth -= 1;
                new_line(out, depth);
                out.put(&rest[..1]);
                1
            }
            b',' => {
                out.put(",");
                new_line(out, depth);
                1
            }
            b':' => {
                out.put(": ");
                1
            }
            b'"' => {
                let end = end_of_string(rest);
                out.put(&rest[..end]);
                end
            }
            _ => {
                let end = rest.find([',', '}', ']']).unwrap_or(rest.len());
                out.put(&rest[..end]);
                end
            }
        };
        rest = &rest[taken..];
    }
    out.put("\n");
}

fn new_line(out: &mut String, depth: usize) {
    out.put("\n");
    for _ in 0..depth {
        out.put("  ");
    }
}

/// The position behind the string that the text starts with.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_is_indented_and_strings_are_not_touched() {
        for (compact, expected) in [
            ("{}", "{}\n"),
            ("[]", "[]\n"),
            ("null", "null\n"),
            (
                r#"{"a":[1,{"b":[]},{}],"c":"x,{\"y\":1}\\"}"#,
                r#"{
  "a": [
    1,
    {
      "b": []
    },
    {}
  ],
  "c": "x,{\"y\":1}\\"
}
"#,
            ),
        ] {
            let mut out = String::new();
            indented(&mut out, compact);
            assert_eq!(out, expected);
        }
    }
}
