#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (kollect_fuzz_targets::JSON_PATH.check)(data));
