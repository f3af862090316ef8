//! Base64.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;

use super::super::error::EvalError;
use super::super::kind::Kind;
use super::super::value::Val;
use super::params::{BYTES, STRING};
use super::{Function, Ret, function, text};

/// Reads text with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function(
        "base64.encode",
        &[BYTES],
        Ret::Is(Kind::String),
        |budget, args| {
            let Val::Bytes(bytes) = &args[0] else {
                return Ok(Val::Null);
            };
            budget.build(bytes.len() / 3 * 4 + 4)?;
            Ok(Val::text(BASE64_STANDARD.encode(bytes)))
        },
    ),
    function(
        "base64.decode",
        &[STRING],
        Ret::Is(Kind::Bytes),
        |budget, args| {
            budget.build(text(args, 0).len())?;
            match LENIENT.decode(text(args, 0)) {
                Ok(bytes) => Ok(Val::Bytes(bytes.into())),
                Err(_) => Err(EvalError::argument(
                    "base64.decode",
                    "the text is not base64",
                )),
            }
        },
    ),
];
