"""The data layer: relations, the collections they form, and how their cells are held."""

from gcmf.data.bound import BoundRelation, EntitySet
from gcmf.data.cells import Cells, Side, Triplets
from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.data.schema import RelationSchema, Schema
from gcmf.data.vocabulary import Vocabulary

__all__ = [
    "BoundRelation",
    "Cells",
    "Collection",
    "EntitySet",
    "Relation",
    "RelationSchema",
    "Schema",
    "Side",
    "Triplets",
    "Vocabulary",
]
