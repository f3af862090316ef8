//! Did you mean …?

/// The candidate that is nearest to a word, if it is near: a third of the letters may differ.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let lower = word.to_lowercase();
    let rated = candidates.into_iter().map(|candidate| {
        let distance = distance(&lower, &candidate.to_lowercase());
        (distance, candidate)
    });
    let (distance, candidate) = rated.min()?;
    (distance <= (word.chars().count() / 3).max(1)).then_some(candidate)
}

/// How many letters have to be changed, added or removed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let cost = (diagonal + usize::from(a != *b))
                .min(row[j] + 1)
                .min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], cost);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found() {
        let kinds = ["KollectProfile", "KollectTarget", "KollectScope"];
        for (word, expected) in [
            ("KollectProfil", Some("KollectProfile")),
            ("kollecttarget", Some("KollectTarget")),
            ("Deployment", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, kinds), expected, "{word}");
        }
        assert_eq!(distance("abc", "abd"), 1);
        assert_eq!(distance("", "abd"), 3);
    }
}
