"""Loads this model by the package pdtools, which has to be installed: this file has no other code."""

try:
    from pdtools.hf import PdtoolsConfig, PdtoolsForCausalLM, PdtoolsTokenizer
except ImportError as error:
    raise ImportError(
        f"this model is loaded by pdtools ({error}): in a checkout of it, pip install '.[hf]'; when it is"
        " released, pip install 'pushdown-tools[hf]' (the distribution named pdtools is another project)"
    ) from error

__all__ = ["PdtoolsConfig", "PdtoolsForCausalLM", "PdtoolsTokenizer"]
