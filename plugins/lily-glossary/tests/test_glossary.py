from lily_glossary import Glossary

from lily.sdk import AssetSeen, Observation
from lily.sdk.testing import HookContract

OPTIONS = Glossary.Options(terms={"cust": "Customer", "ord": "Order", "key": "Key"})


def terms_of(name: str, **fields: object) -> object:
    answer = Glossary(OPTIONS)(AssetSeen(qualified_name="a", asset_name=name, **fields))  # type: ignore[arg-type]
    assert isinstance(answer, AssetSeen)
    return answer.business_terms


class TestGlossary(HookContract):
    def make(self) -> Glossary:
        return Glossary(OPTIONS)

    def examples(self) -> list[Observation]:
        return [AssetSeen(qualified_name="a", asset_name="CUST_ordDate", business_terms=["Day"])]


def test_words_lead_to_terms() -> None:
    assert terms_of("CUST_ordDate") == ["Customer", "Order"]


def test_terms_of_the_source_stay_first() -> None:
    assert terms_of("cust_id", business_terms=["Party"]) == ["Party", "Customer"]


def test_a_partial_observation_without_terms_keeps_the_stored_ones() -> None:
    seen = AssetSeen(qualified_name="a", asset_name="cust", partial=True)
    assert Glossary(OPTIONS)(seen) is seen
