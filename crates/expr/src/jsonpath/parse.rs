//! From text to steps, in one pass without recursion: a filter is the only thing that holds paths
//! inside a path, and it cannot hold another filter.

use serde_json::Number;
use smallvec::{SmallVec, smallvec};

use super::error::{ParseError, Problem};
use super::step::{Filter, Operand, Operator, Selector, Slice, Step};
use super::{MAX_BYTES, MAX_STEPS};

/// Which texts are paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `$…`, `.…` or one pair of braces. Anything else would be a literal in a kubectl template,
    /// which nobody means when asking for an attribute.
    Attribute,
    /// Also `spec.name` and `['spec']`: where something is to be removed, a bare name can only
    /// mean a member of the root.
    Removal,
}

/// A parsed path.
pub(super) struct Parsed {
    pub(super) steps: Vec<Step>,
    /// Where the first step may begin, behind braces, blanks and `$`.
    pub(super) body: usize,
}

pub(super) fn parse(text: &str, form: Form) -> Result<Parsed, ParseError> {
    if text.is_empty() {
        return Err(ParseError::whole(Problem::Blank));
    }
    if text.len() > MAX_BYTES {
        return Err(ParseError::whole(Problem::TooLong));
    }
    Parser { text, at: 0 }
        .path(form)
        .map_err(|(offset, problem)| ParseError::at(text, offset, problem))
}

type Fallible<T> = Result<T, (usize, Problem)>;

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn path(mut self, form: Form) -> Fallible<Parsed> {
        let braces = self.eat('{');
        if braces {
            self.blanks();
            let _ = self.eat('$') || self.eat('@');
        } else if !self.eat('$') {
            match self.peek() {
                Some('.') => {}
                Some(_) if form == Form::Removal => return self.bare(),
                _ => return Err((self.at, Problem::NotAPath)),
            }
        }
        let body = self.at;
        let steps = self.steps(false)?;
        match self.peek() {
            None if braces => return Err((self.at, Problem::UnclosedBrace)),
            Some('}') if braces => {
                self.bump();
                if self.peek().is_some() {
                    return Err((self.at, Problem::AfterBrace));
                }
            }
            Some(other) => {
                let at_start = braces && steps.is_empty();
                let problem = if at_start && !matches!(other, '{' | ']' | ',') {
                    Problem::NoStep
                } else {
                    Problem::Unexpected(other)
                };
                return Err((self.at, problem));
            }
            None => {}
        }
        Ok(Parsed { steps, body })
    }

    /// A path whose first step stands without its dot: `spec.name`, `['spec']`.
    fn bare(mut self) -> Fallible<Parsed> {
        let mut steps = Vec::new();
        if self.peek() != Some('[') {
            let start = self.at;
            let selector = self.name(false)?.ok_or((start, Problem::NotAPath))?;
            steps.push(Step {
                deep: false,
                selectors: smallvec![selector],
                span: start..self.at,
            });
        }
        steps.append(&mut self.steps(false)?);
        match self.peek() {
            Some(other) => Err((self.at, Problem::Unexpected(other))),
            None => Ok(Parsed { steps, body: 0 }),
        }
    }

    /// As many steps as follow; stops at the first character that does not begin one.
    fn steps(&mut self, in_filter: bool) -> Fallible<Vec<Step>> {
        let mut steps: Vec<Step> = Vec::new();
        loop {
            self.blanks();
            let start = self.at;
            let (deep, selectors) = match self.peek() {
                Some('.') => {
                    self.bump();
                    let deep = self.eat('.');
                    let after_descent = steps.last().is_some_and(ends_in_descent);
                    if deep && (self.peek() == Some('.') || after_descent) {
                        return Err((start, Problem::DoubleDescent));
                    }
                    (deep, self.after_dot(deep, in_filter)?)
                }
                Some('[') => (false, self.brackets(in_filter)?),
                _ => return Ok(steps),
            };
            if steps.len() == MAX_STEPS {
                return Err((start, Problem::TooManySteps));
            }
            steps.push(Step {
                deep,
                selectors,
                span: start..self.at,
            });
        }
    }

    fn after_dot(&mut self, deep: bool, in_filter: bool) -> Fallible<SmallVec<[Selector; 1]>> {
        if deep && self.peek() == Some('[') {
            return self.brackets(in_filter);
        }
        match self.name(in_filter)? {
            Some(selector) => Ok(smallvec![selector]),
            None if deep => Ok(smallvec![Selector::Itself]),
            None => Err((self.at, Problem::NameMissing)),
        }
    }

    /// A name without quotes, or `*`.
    fn name(&mut self, in_filter: bool) -> Fallible<Option<Selector>> {
        let start = self.at;
        let mut name = String::new();
        while let Some(next) = self.peek() {
            if ends_name(next, in_filter) {
                break;
            }
            self.bump();
            name.push(if next == '\\' { self.escaped()? } else { next });
        }
        Ok(match &self.text[start..self.at] {
            "" => None,
            "*" => Some(Selector::Children),
            _ => Some(Selector::Member(name.into())),
        })
    }

    fn escaped(&mut self) -> Fallible<char> {
        self.bump().ok_or((self.at, Problem::DanglingEscape))
    }

    fn brackets(&mut self, in_filter: bool) -> Fallible<SmallVec<[Selector; 1]>> {
        let open = self.at;
        self.bump();
        self.blanks();
        let mut selectors = SmallVec::new();
        match self.peek() {
            Some(']') => return Err((open, Problem::EmptyBrackets)),
            Some('?') if in_filter => return Err((self.at, Problem::NestedFilter)),
            Some('?') => selectors.push(Selector::Filter(Box::new(self.filter()?))),
            Some('*') => {
                self.bump();
                selectors.push(Selector::Elements);
            }
            _ => {
                selectors.push(self.choice(open)?);
                self.blanks();
                while self.eat(',') {
                    self.blanks();
                    selectors.push(self.choice(open)?);
                    self.blanks();
                }
            }
        }
        self.blanks();
        match self.bump() {
            Some(']') => Ok(selectors),
            Some(_) => Err((open, Problem::Bracket)),
            None => Err((open, Problem::UnclosedBracket)),
        }
    }

    /// One member of a union: a quoted name, an index or a slice.
    fn choice(&mut self, open: usize) -> Fallible<Selector> {
        match self.peek() {
            None => Err((open, Problem::UnclosedBracket)),
            Some('\'' | '"') => Ok(Selector::Member(self.quoted()?)),
            Some(_) => self.index_or_slice(),
        }
    }

    fn index_or_slice(&mut self) -> Fallible<Selector> {
        let at = self.at;
        let start = self.integer()?;
        self.blanks();
        if !self.eat(':') {
            return start.map(Selector::Index).ok_or((at, Problem::Bracket));
        }
        self.blanks();
        let end = self.integer()?;
        self.blanks();
        let mut step = 1;
        if self.eat(':') {
            self.blanks();
            let at = self.at;
            if let Some(given) = self.integer()? {
                step = usize::try_from(given).unwrap_or(0);
                if step == 0 {
                    return Err((at, Problem::SliceStep));
                }
            }
        }
        Ok(Selector::Slice(Slice { start, end, step }))
    }

    fn integer(&mut self) -> Fallible<Option<i64>> {
        let start = self.at;
        let _ = self.eat('-');
        while self.peek().is_some_and(|next| next.is_ascii_digit()) {
            self.bump();
        }
        match &self.text[start..self.at] {
            "" => Ok(None),
            "-" => Err((start, Problem::Bracket)),
            digits => digits
                .parse()
                .map(Some)
                .map_err(|_| (start, Problem::IndexTooLarge)),
        }
    }

    /// Text in single or double quotes; `\` takes the next character as it is.
    fn quoted(&mut self) -> Fallible<Box<str>> {
        let open = self.at;
        let quote = self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return Err((open, Problem::UnclosedQuote)),
                next if next == quote => return Ok(text.into()),
                Some('\\') => text.push(self.escaped()?),
                Some(next) => text.push(next),
            }
        }
    }

    fn filter(&mut self) -> Fallible<Filter> {
        let start = self.at;
        self.bump();
        if !self.eat('(') {
            return Err((start, Problem::Filter));
        }
        let left = self.operand()?;
        self.blanks();
        let filter = if self.peek() == Some(')') {
            match left {
                Operand::Path(steps) => Filter::Exists(steps),
                _ => return Err((start, Problem::FilterWithoutPath)),
            }
        } else {
            let operator = self.operator(start)?;
            let right = self.operand()?;
            if !matches!(left, Operand::Path(_)) && !matches!(right, Operand::Path(_)) {
                return Err((start, Problem::FilterWithoutPath));
            }
            Filter::Compare {
                left,
                operator,
                right,
            }
        };
        self.blanks();
        match self.peek() {
            Some(')') => self.bump(),
            Some('&' | '|' | '=' | '!' | '<' | '>') => {
                return Err((self.at, Problem::OneComparison));
            }
            _ => return Err((start, Problem::Filter)),
        };
        Ok(filter)
    }

    fn operand(&mut self) -> Fallible<Operand> {
        self.blanks();
        let start = self.at;
        match self.peek() {
            Some('@') => {
                self.bump();
                Ok(Operand::Path(self.steps(true)?.into()))
            }
            Some('\'' | '"') => Ok(Operand::Text(self.quoted()?)),
            _ => {
                while self.peek().is_some_and(is_literal) {
                    self.bump();
                }
                literal(&self.text[start..self.at]).ok_or((start, Problem::Operand))
            }
        }
    }

    fn operator(&mut self, filter: usize) -> Fallible<Operator> {
        let start = self.at;
        while self.peek().is_some_and(|next| "=!<>~&|".contains(next)) {
            self.bump();
        }
        Ok(match &self.text[start..self.at] {
            "==" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            "" => return Err((filter, Problem::Filter)),
            "&&" | "||" => return Err((start, Problem::OneComparison)),
            _ => return Err((start, Problem::Operator)),
        })
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.bump();
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn eat(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.bump();
        }
        found
    }
}

fn ends_in_descent(step: &Step) -> bool {
    step.deep && step.selectors[0] == Selector::Itself
}

fn is_blank(next: char) -> bool {
    matches!(next, ' ' | '\t' | '\r' | '\n')
}

fn ends_name(next: char, in_filter: bool) -> bool {
    is_blank(next)
        || matches!(next, '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
        || (in_filter && matches!(next, '(' | ')' | '=' | '!' | '<' | '>' | '&' | '|'))
}

fn is_literal(next: char) -> bool {
    next.is_ascii_alphanumeric() || matches!(next, '+' | '-' | '.')
}

fn literal(text: &str) -> Option<Operand> {
    match text {
        "true" => return Some(Operand::Bool(true)),
        "false" => return Some(Operand::Bool(false)),
        _ => {}
    }
    // Rust also reads "inf" and "nan" as numbers; no number of JSON starts with a letter.
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    let number = if let Ok(integer) = text.parse::<i64>() {
        Some(Number::from(integer))
    } else if let Ok(integer) = text.parse::<u64>() {
        Some(Number::from(integer))
    } else {
        text.parse().ok().and_then(Number::from_f64)
    };
    number.map(Operand::Number)
}
